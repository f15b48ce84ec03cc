// Somebody is asked: one request is allowed once, the next one for ever, and each of them passes; a third is denied.
const { check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.first();
  await journey.policy(page, 'web', 'version: 1\nhold: 5m\negress:\n  - host: other.test\n');
  const ask = (word, path) => `curl -s -o /dev/null -m 300 -w '${word}=%{http_code}\\n' http://wanted.test/${path}`;
  const script = [ask('once', 'once'), ask('first', 'ever'), ask('second', 'ever'), ask('never', 'never')].join('; ');
  await journey.server(page, 'asker', script, 'web');
  await journey.start(page, 'asker');
  await heading(page, 'Sandbox of asker');
  const sandbox = page.url();

  const waits = async path => {
    await journey.to(page, '/approvals');
    const row = page.getByRole('row').filter({ hasText: `http://wanted.test:80/${path}` });
    await journey.until(page, async () => await row.count() === 1);
    return row;
  };
  // The number beside Approvals is on every page.
  let row = await waits('once');
  check(/Approvals\s*1/.test(await page.innerText('header nav')), 'the number beside Approvals');
  await journey.shot(page, 'waits');
  // Nobody who only looks may answer.
  const ben = await journey.member(page, 'ben', 'auditor');
  await journey.to(ben, '/approvals');
  check((await ben.innerText('main')).includes('wanted.test'), 'an auditor does not see it');
  check(await ben.getByRole('button', { name: 'Allow once' }).count() === 0, 'an auditor may answer');
  row = await waits('once');
  await journey.click(page, 'button', 'Allow once', row);
  await heading(page, 'Approvals');

  // The next one comes by itself, on the page that is open; and so does its number, there and on the overview.
  row = page.getByRole('row').filter({ hasText: 'http://wanted.test:80/ever' });
  await row.waitFor();
  check(/Approvals\s*1/.test(await page.innerText('header nav')), 'the number does not come');
  check((await page.title()).startsWith('(1)'), await page.title());
  await journey.shot(page, 'waits-again');
  const told = () => page.locator('#waits-told').textContent();
  check((await told()).includes('One request waits'), await told());
  const overview = await page.context().newPage();
  await journey.to(overview, '/');
  check((await overview.innerText('#waiting')).startsWith('1'), 'not on the overview');
  // What stands for ever is looked at first.
  await journey.click(page, 'link', 'This path, for ever…', row);
  await heading(page, 'Allow it for ever?');
  check((await page.innerText('main')).includes('/ever'), 'nobody sees which path');
  await page.getByLabel('Why').fill('the team asked');
  await journey.shot(page, 'for-ever');
  await journey.click(page, 'button', 'Allow it for ever');
  await heading(page, 'Approvals');
  row = await waits('never');
  await journey.click(page, 'button', 'Deny', row);
  await heading(page, 'Approvals');
  check(await row.count() === 0, 'it waits still');
  await overview.locator('#waiting').getByText('0').waitFor();
  check(!/\d/.test(await overview.innerText('header nav')), 'the number stays');
  await overview.close();

  await journey.to(page, sandbox);
  const said = async () => page.innerText('main');
  await journey.until(page, async () => (await said()).includes('never='));
  for (const [word, status] of [['once', 200], ['first', 200], ['second', 200], ['never', 403]]) {
    check((await said()).includes(`${word}=${status}`), `${word}: ${await said()}`);
  }
  await journey.shot(page, 'over');
  await journey.to(page, '/policies/web');
  const kept = await said();
  check(kept.includes('/ever') && !kept.includes('/once') && !kept.includes('/never'), kept);
  // Who allowed it is in the record of what went.
  await journey.to(page, '/audit?event=admin&text=once');
  check((await said()).includes('ana'), await said());
});
