// A device is set up by its picture or its secret, its codes are asked for, and a role is asked for one.
const crypto = require('crypto');
const { CONSOLE, DESKTOP, OWN_PASSWORD, PASSWORD, PHONE, axe, check, fits, heading, play } = require('./console.cjs');

// RFC 6238, as a device does it; each code once.
class Device {
  constructor(words) {
    const bits = [...words].map(letter => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0')).join('');
    this.seed = Buffer.from(bits.match(/.{8}/g).map(octet => parseInt(octet, 2)));
    this.last = 0;
  }

  async next() {
    for (;;) {
      const now = Math.floor(Date.now() / 30000);
      const step = Math.max(this.last + 1, now);
      if (step <= now + 1) {
        this.last = step;
        const moment = Buffer.alloc(8);
        moment.writeBigUInt64BE(BigInt(step));
        const tag = crypto.createHmac('sha1', this.seed).update(moment).digest();
        const number = tag.readUInt32BE(tag[19] & 15) & 0x7fffffff;
        return String(number % 1000000).padStart(6, '0');
      }
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }
}

play(async journey => {
  const bad = [];
  // Light and dark, at a desk and on a telephone.
  const look = async (page, name) => {
    for (const [width, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
      await page.setViewportSize(viewport);
      await fits(page);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        bad.push(...await axe(page));
        await journey.shot(page, `${name}-${width}-${colorScheme}`);
      }
    }
    await page.setViewportSize(DESKTOP);
  };
  const signIn = async (page, password, code) => {
    await journey.to(page, '/sign-in');
    await page.getByLabel('Name', { exact: true }).fill('ana');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('textbox', { name: 'Code' }).fill(code);
    return journey.click(page, 'button', 'Sign in');
  };

  const page = await journey.first();
  await journey.to(page, '/people');
  await journey.click(page, 'link', 'Your second factor');
  await heading(page, 'Second factor');
  await look(page, 'none');
  await page.getByLabel('Your password').fill(PASSWORD);
  await journey.click(page, 'button', 'Set up');
  await page.getByRole('img', { name: 'QR code' }).waitFor();
  await look(page, 'picture');
  const words = await page.locator('code.whole').first().innerText();
  const address = await page.getByRole('link', { name: 'otpauth' }).getAttribute('href');
  check(address.includes(`secret=${words}&`), address);
  const device = new Device(words);
  await page.getByRole('textbox', { name: 'Code' }).fill('000000');
  const wrong = await journey.click(page, 'button', 'Confirm');
  check(wrong.status() === 400, `a wrong code: ${wrong.status()}`);
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor();
  check(await page.locator('code.whole').first().innerText() === words, 'another secret after a wrong code');
  await page.getByRole('textbox', { name: 'Code' }).fill(await device.next());
  await journey.click(page, 'button', 'Confirm');
  const codes = await page.locator('.codes code').allInnerTexts();
  check(codes.length === 10, `${codes.length} recovery codes`);
  await look(page, 'codes');
  await journey.click(page, 'link', 'Go on');
  await heading(page, 'Overview');
  await journey.click(page, 'button', 'Sign out');

  const refused = await signIn(page, PASSWORD, '');
  check(refused.status() === 403, `without a code: ${refused.status()}`);
  await page.getByRole('alert').filter({ hasText: 'the name, the password or the code' }).waitFor();
  await journey.shot(page, 'refused');
  await signIn(page, PASSWORD, await device.next());
  await heading(page, 'Overview');
  // The device is lost: at another browser, by what was written down.
  const lost = await journey.person({ viewport: PHONE, colorScheme: 'dark' });
  await signIn(lost, PASSWORD, codes[0]);
  await heading(lost, 'Overview');
  const again = await signIn(lost, PASSWORD, codes[0]);
  check(again.status() === 403, `a code twice: ${again.status()}`);

  // Somebody whose role is asked for one is shown nothing before.
  const ben = await journey.member(page, 'ben', 'editor');
  await journey.to(page, '/people');
  await page.getByText('Ask for a second factor').click();
  await page.getByRole('checkbox', { name: 'editor' }).check();
  await journey.click(page, 'button', 'Ask');
  await journey.to(ben, '/policies');
  check(ben.url() === `${CONSOLE}/people/second-factor`, ben.url());
  await ben.getByText('Your role needs a second factor').waitFor();
  await look(ben, 'needed');
  await ben.getByLabel('Your password').fill(OWN_PASSWORD);
  await journey.click(ben, 'button', 'Set up');
  const his = new Device(await ben.locator('code.whole').first().innerText());
  await ben.getByRole('textbox', { name: 'Code' }).fill(await his.next());
  await journey.click(ben, 'button', 'Confirm');
  await journey.to(ben, '/policies');
  await heading(ben, 'Policies');

  // He loses his; she removes it. And her own, with password and code.
  await journey.to(page, '/people');
  await look(page, 'people');
  const row = page.getByRole('row').filter({ has: page.getByRole('combobox', { name: 'Role of ben' }) });
  await journey.click(page, 'link', 'Remove second factor of ben', row);
  await journey.click(page, 'button', 'Remove the second factor of ben');
  check(await row.getByRole('link', { name: 'Remove second factor of ben' }).count() === 0, 'it is still there');
  await journey.to(page, '/people/second-factor');
  await page.getByText('Remove it').click();
  await page.getByLabel('Your password').fill(PASSWORD);
  await page.getByRole('textbox', { name: 'Code' }).fill(codes[1]);
  await journey.click(page, 'button', 'Remove');
  await page.getByRole('button', { name: 'Set up' }).waitFor();
  check(bad.length === 0, bad.join('\n'));
});
