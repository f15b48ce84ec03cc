// Two clicks from a denial, and the same sandbox passes: where nothing was in force for its server, and
// where another policy is by now and the one that denied it is gone.
const { check, heading, play } = require('./console.cjs');

const asks = path => `until curl -s -f -m 20 -o /dev/null http://wanted.test/${path}; do sleep 0.3; done; echo passed; sleep 100000`;

async function start(journey, page, server) {
  await journey.to(page, '/servers');
  const row = page.getByRole('row').filter({ has: page.getByText(server, { exact: true }) });
  await journey.click(page, 'button', `Start ${server}`, row);
  await heading(page, `Sandbox of ${server}`);
  return page.url();
}

async function passes(journey, page, sandbox) {
  await journey.to(page, sandbox);
  await journey.until(page, async () => (await page.innerText('main')).includes('passed'));
}

play(async journey => {
  const page = await journey.first();
  const link = page.getByRole('link', { name: /^Allow this host/ });
  const waits = async () => { await journey.to(page, '/'); await journey.until(page, async () => await link.count() > 0); };

  await journey.server(page, 'asker', asks('first'));
  const first = await start(journey, page, 'asker');
  await waits();
  check((await page.innerText('main')).includes('none: denies all'), 'it is not said that nothing is in force');
  await journey.shot(page, 'nothing-assigned');
  await journey.click(page, 'link', /^Allow this host/);
  await heading(page, 'New policy asker');
  check((await page.innerText('main')).includes('Saving puts it in force for server asker.'), await page.innerText('main'));
  const narrow = await page.getByLabel('Document').inputValue();
  check(narrow.includes('wanted.test') && narrow.split('host:').length === 2, `not narrow: ${narrow}`);
  await journey.shot(page, 'new-policy');
  await journey.click(page, 'button', 'Save and put in force');
  await heading(page, 'asker');
  await passes(journey, page, first);
  await journey.shot(page, 'passed');

  await journey.policy(page, 'old', 'version: 1\negress: []\n');
  await journey.policy(page, 'now', 'version: 1\negress: []\n');
  await journey.server(page, 'second', asks('second'), 'old');
  const second = await start(journey, page, 'second');
  await waits();
  await journey.to(page, '/policies/now');
  await page.getByLabel('Put it in force for').selectOption('second');
  await journey.click(page, 'button', 'Put in force');
  await journey.click(page, 'button', 'Put now in force for server second');
  await journey.to(page, '/policies/old');
  await journey.click(page, 'link', 'Remove this policy');
  await journey.click(page, 'button', 'Remove the policy old');
  await waits();
  await journey.click(page, 'link', /^Allow this host/);
  await heading(page, 'Edit now');
  check((await page.innerText('main')).includes('It is in force for server second.'), await page.innerText('main'));
  await journey.shot(page, 'where-now');
  await journey.click(page, 'button', 'Save and put in force');
  await passes(journey, page, second);
});
