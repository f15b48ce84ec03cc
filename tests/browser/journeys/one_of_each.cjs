// One server, changed in place; one sandbox of it, with what it may reach and what it tried; one record of that in its chain.
const { DESKTOP, PHONE, axe, check, fits, heading, play } = require('./console.cjs');

play(async journey => {
  const ana = await journey.first();
  const bad = [];
  const look = async name => {
    for (const [width, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
      await ana.setViewportSize(viewport);
      await fits(ana);
      await journey.shot(ana, `${name}-${width}`);
    }
    bad.push(...await axe(ana));
    await ana.setViewportSize(DESKTOP);
  };
  await journey.policy(ana, 'web', 'version: 1\nname: web\negress:\n  - {host: api.example.test, ports: [80], rules: [{methods: [GET], paths: ["/v1/**"]}]}\n');
  await journey.policy(ana, 'bounds', 'version: 1\nname: bounds\negress:\n  - {host: "*.example.test", ports: [443]}\n');
  const ask = where => `curl -s -o /dev/null -m 60 http://${where}`;
  await journey.server(ana, 'reader', `${ask('api.example.test/v2/x')}; ${ask('wanted.test/')}; echo done`, 'web');
  await journey.to(ana, '/policies/bounds');
  await ana.getByLabel('Make it the floor of').selectOption('reader');
  await journey.click(ana, 'button', 'Set the floor');
  await journey.click(ana, 'button', 'Make bounds the floor of server reader');

  // Two people have the form open: who saves second is told.
  await journey.to(ana, '/servers');
  await journey.click(ana, 'link', 'reader', ana.getByRole('table'));
  await heading(ana, 'reader');
  const other = await ana.context().newPage();
  await journey.to(other, '/servers/reader');
  for (const [page, seconds] of [[ana, '60'], [other, '90']]) {
    await page.getByText('Change it').click();
    await page.getByLabel('Ends when idle').fill(seconds);
    const answer = await journey.click(page, 'button', 'Save');
    check(answer.status() === (page === ana ? 200 : 412), `${seconds}: ${answer.status()}`);
  }
  check((await other.innerText('main')).includes('changed meanwhile'), 'nobody says that it was changed');
  await other.close();
  const main = await ana.innerText('main');
  check(main.includes('after 60 seconds') && main.includes('server reader') && main.includes('bounds'), main);
  await look('server');

  await journey.run(ana, 'reader');
  const one = await ana.innerText('main');
  for (const words of ['host api.example.test ports 80', 'wanted.test', 'egress[0]', 'done']) check(one.includes(words), `${words}: ${one}`);
  await look('sandbox');
  await journey.go(ana, () => ana.getByRole('region', { name: 'What it tried' }).getByRole('link', { name: /\d\d:\d\d/ }).first().click());
  const record = await ana.innerText('main');
  check(record.includes('Its place in the chain') && !record.includes('does not hold'), record);
  await look('record');
  await journey.go(ana, () => ana.getByRole('region', { name: 'Its place in the chain' }).getByRole('link').first().click());
  check((await ana.innerText('main')).includes('Its place in the chain'), 'not the record before');

  await journey.to(ana, '/settings');
  check((await ana.innerText('main')).includes('retention'), 'no health of retention');
  check(bad.length === 0, bad.join('\n'));
});
