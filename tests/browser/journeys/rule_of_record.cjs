// From an allowed record in a list to its rule in one click: in the document of the version that decided,
// though another rule was the last to change, and though the policy was removed since.
const { DESKTOP, check, heading, play } = require('./console.cjs');

const hosts = first => [first, ...Array.from({ length: 59 }, (_, at) => `n${at + 1}.test`)];
const document = (first, wanted) => 'version: 1\negress:\n' + hosts(first)
  .map((host, at) => at === 50 ? `  - host: ${wanted}\n    rules:\n      - {methods: [POST]}\n      - methods: [GET]\n        paths: [/wanted]\n` : `  - host: ${host}\n`).join('');

// What is marked is on the screen, and is the rule.
async function marked(page) {
  const marks = page.locator('.source mark');
  const text = (await marks.allInnerTexts()).join('\n');
  check(text.includes('wanted.test') && text.includes('/wanted') && !text.includes('n49.test'), `marked: ${text}`);
  check((await page.locator('.source mark.exact').allInnerTexts()).join('').includes('/wanted'), 'not the request rule');
  for (const mark of await marks.all()) {
    const box = await mark.boundingBox();
    check(box.y >= 0 && box.y + box.height <= DESKTOP.height, `a marked line is at ${box.y}`);
  }
}

play(async journey => {
  const page = await journey.first();
  await journey.policy(page, 'web', document('n0.test', 'wanted.test'));
  await journey.to(page, '/policies/web/edit');
  await page.getByLabel('Document').fill(document('other.test', 'wanted.test'));
  await journey.click(page, 'button', 'Save');
  await journey.server(page, 'asker', "curl -s -m 60 -w 'answer=%{http_code}\\n' http://wanted.test/wanted", 'web');
  await journey.run(page, 'asker');
  await journey.until(page, async () => (await page.innerText('main')).includes('answer=200'));

  await journey.to(page, '/audit?verdict=allow&event=request');
  await journey.click(page, 'link', 'egress[50].rules[1]', page.getByRole('table'));
  await heading(page, 'web, version 2');
  await marked(page);
  await journey.shot(page, 'rule');
  check((await page.innerText('main')).includes('What changed against version 1'), 'no difference');

  // Taken out of force and removed: what it allowed is found all the same.
  await journey.to(page, '/policies/web');
  await journey.click(page, 'link', 'Take it out of force for server asker');
  await journey.click(page, 'button', 'Take web out of force for server asker');
  await journey.click(page, 'link', 'Remove this policy');
  await journey.shot(page, 'sure');
  await journey.click(page, 'button', 'Remove the policy web');
  await journey.to(page, '/audit?verdict=allow&event=request');
  await journey.go(page, () => page.getByRole('table').getByRole('link').first().click());
  await journey.shot(page, 'record');
  await journey.click(page, 'link', 'The rule that let it pass');
  await marked(page);
  check((await page.innerText('main')).includes('This policy was removed'), 'it is not said');
  await journey.shot(page, 'removed');
  await journey.click(page, 'link', 'Roll back to this version');
  await journey.click(page, 'button', 'Roll web back to version 2');
  await heading(page, 'web');
  check((await page.innerText('main')).includes('Version 3'), 'it is not back');
});
