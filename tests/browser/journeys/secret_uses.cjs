// Keep a secret, let a server use it, find where it went, give it another value.
const { check, heading, play } = require('./console.cjs');

const VALUE = 'the-value-that-nobody-reads-5Tz';

play(async journey => {
  const page = await journey.first();
  await journey.to(page, '/secrets');
  await page.getByLabel('Name', { exact: true }).fill('TOKEN');
  await page.getByLabel('Value', { exact: true }).fill(VALUE);
  check(await page.getByLabel('Value', { exact: true }).getAttribute('type') === 'password', 'who looks on reads it');
  await journey.click(page, 'button', 'Keep it');
  await heading(page, 'TOKEN');
  await journey.policy(page, 'web', 'version: 1\negress:\n  - {host: bank.test, ports: [80], protocol: http, secrets: [TOKEN]}\n');
  await journey.server(page, 'payer', "curl -s -m 60 -H \"X-Key: $TOKEN\" -w 'answer=%{http_code}\\n' http://bank.test/pay", 'web', 'TOKEN');
  await journey.run(page, 'payer');
  await journey.until(page, async () => (await page.innerText('main')).includes('answer=200'));

  await journey.to(page, '/secrets');
  const row = page.getByRole('row').filter({ hasText: 'TOKEN' });
  const told = await row.innerText();
  check(told.includes('bank.test:80') && told.includes('payer'), told);
  await journey.shot(page, 'secrets');
  await journey.click(page, 'link', 'TOKEN');
  const uses = await page.getByRole('region', { name: 'Records' }).innerText();
  check(uses.includes('bank.test') && uses.includes('payer') && uses.includes('secret.set'), uses);
  await journey.shot(page, 'uses');
  await page.getByLabel('New value').fill('something-else-altogether-1Qx');
  await journey.click(page, 'button', 'Rotate');
  check((await page.getByRole('region', { name: 'Versions' }).innerText()).includes('revoked'), await page.innerText('main'));
  await journey.click(page, 'link', 'All its uses');
  check((await page.innerText('main')).includes('rotate version 2'), 'the change is not in the record');
  check(!(await page.content()).includes(VALUE), 'a value was shown');
  await journey.to(page, '/settings');
  await journey.click(page, 'button', 'Examine this host');
  await page.getByRole('region', { name: 'What was found' }).waitFor();
  await journey.shot(page, 'doctor');
});
