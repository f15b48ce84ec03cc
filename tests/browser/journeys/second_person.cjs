// Observe, suggest, simulate, approve by a second person, roll back.
const { check, heading, play } = require('./console.cjs');

play(async journey => {
  const ana = await journey.first();
  const cem = await journey.member(ana, 'cem', 'approver');
  await journey.policy(ana, 'web', 'version: 1\nmode: observe\negress: []\n');
  await journey.server(ana, 'asker', "curl -s -m 60 -w 'answer=%{http_code}\\n' http://seen.test/a", 'web');
  await journey.run(ana, 'asker');
  await journey.until(ana, async () => (await ana.innerText('main')).includes('answer=200'));

  // From the sandbox to a document for what it did.
  await journey.click(ana, 'link', 'Suggest a policy for it');
  const suggested = await ana.getByLabel('Document').inputValue();
  check(suggested.includes('seen.test') && suggested.includes('# '), `suggested: ${await ana.innerText("main")}`);
  await journey.shot(ana, 'suggested');
  const simulated = async (document, denied) => {
    await ana.getByLabel('Document').fill(document);
    await journey.click(ana, 'button', 'Simulate');
    await ana.getByRole('heading', { name: 'With what was recorded' }).waitFor();
    check((await ana.innerText('main')).includes(`newly deny: ${denied}\n`), await ana.innerText('main'));
  };
  // What was only observed is cut by a document that enforces and leaves it out.
  await simulated('version: 1\nmode: enforce\negress: []\n', 1);
  await simulated(suggested, 0);
  await journey.shot(ana, 'simulated');

  // Two people from now on: what one proposes waits for the other.
  const draft = await ana.getByLabel('Document').inputValue();
  await journey.to(ana, '/approvals');
  await journey.click(ana, 'button', 'Turn it on');
  await journey.to(ana, '/policies/web/edit');
  await ana.getByLabel('Document').fill(draft);
  await ana.getByLabel('Why').fill('what it was seen to need');
  await journey.click(ana, 'button', 'Propose');
  await heading(ana, 'A version of policy web');
  check(await ana.getByRole('button', { name: 'Approve' }).count() === 0, 'one person is enough');
  await journey.shot(ana, 'proposed');
  await journey.to(ana, '/policies/web');
  check(!(await ana.innerText('main')).includes('seen.test'), 'in force before it was approved');

  await journey.to(cem, '/approvals');
  await journey.shot(cem, 'waiting');
  await journey.click(cem, 'link', 'A version of policy web');
  check((await cem.innerText('main')).includes('seen.test'), 'they do not see what they approve');
  await cem.getByLabel('Why').fill('looked at');
  await journey.shot(cem, 'to-decide');
  await journey.click(cem, 'button', 'Approve');
  await journey.to(cem, '/policies/web');
  check((await cem.innerText('main')).includes('seen.test'), 'not in force');
  await journey.shot(cem, 'in-force');

  // Back to the first version, by two again.
  await journey.to(ana, '/policies/web/versions/1');
  await journey.click(ana, 'link', 'Roll back to this version');
  await journey.click(ana, 'button', 'Roll web back to version 1');
  await journey.to(cem, '/approvals');
  await journey.click(cem, 'link', 'A version of policy web', cem.getByRole('table').first());
  await journey.click(cem, 'button', 'Approve');
  await journey.to(ana, '/policies/web');
  const back = await ana.innerText('main');
  check(back.includes('Version 3') && !back.includes('seen.test'), back);
  await journey.shot(ana, 'rolled-back');
});
