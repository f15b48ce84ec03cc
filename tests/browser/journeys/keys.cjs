// By keys alone: sign in, write a policy, allow from a denial, end a session. What has the focus is always seen.
const { CONSOLE, PASSWORD, check, heading, play } = require('./console.cjs');

// What has the focus: its kind, its name, and whether anything shows that it has it.
const focused = page => page.evaluate(() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const label = one.labels && one.labels.length > 0 ? one.labels[0].innerText : one.innerText || one.value || '';
  const box = one.getBoundingClientRect();
  return {
    tag: one.tagName.toLowerCase(),
    name: (one.getAttribute('aria-label') || label).trim(),
    seen: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none',
    inside: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
  };
});

// Tab after Tab until this has the focus; each on the way is seen to have it.
async function tabTo(page, tag, name) {
  const way = [];
  for (let step = 0; step < 120; step += 1) {
    // A page may have given it the focus by itself.
    if (step > 0) await page.keyboard.press('Tab');
    const one = await focused(page);
    way.push(`${one.tag} ${one.name}`);
    if (one.tag === 'body') continue;
    check(one.seen, `nothing shows that ${one.tag} ${one.name} has the focus at ${page.url()}`);
    check(one.inside, `${one.tag} ${one.name} has the focus out of sight at ${page.url()}`);
    if (one.tag === tag && (one.name === name || one.name.startsWith(`${name}: `))) return;
  }
  check(false, `no Tab leads to ${tag} ${name} at ${page.url()}: ${way.join(', ')}`);
}

play(async journey => {
  const first = await journey.first();
  const page = await journey.person();
  await journey.to(page, '/sign-in');
  await tabTo(page, 'input', 'Name');
  await page.keyboard.type('ana');
  await tabTo(page, 'input', 'Password');
  await page.keyboard.type(PASSWORD);
  await journey.go(page, () => page.keyboard.press('Enter'));
  await heading(page, 'Overview');

  // The first Tab of a page leads past what is on each of them.
  await journey.to(page, '/policies');
  await tabTo(page, 'a', 'Skip to content');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.querySelector('#main').contains(document.activeElement)), 'it skips nothing');

  // What is typed into a document is typed, and Tab leads out of it.
  await journey.to(page, '/policies/web/edit');
  await tabTo(page, 'textarea', 'Document');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('version: 1\negress:\n  - host: other.test\n');
  await tabTo(page, 'button', 'Save');
  await journey.shot(page, 'document');
  await journey.go(page, () => page.keyboard.press('Space'));
  await heading(page, 'web');
  await journey.server(page, 'asker', "curl -s -m 60 -w 'answer=%{http_code}\\n' http://wanted.test/wanted", 'web');
  await journey.run(page, 'asker');

  await journey.to(page, '/');
  await tabTo(page, 'a', 'Allow this host');
  await journey.go(page, () => page.keyboard.press('Enter'));
  await heading(page, 'Edit web');
  await tabTo(page, 'button', 'Save and put in force');
  await journey.go(page, () => page.keyboard.press('Enter'));
  await heading(page, 'web');
  check((await page.innerText('main')).includes('wanted.test'), 'it is not saved');
  await journey.run(page, 'asker');
  await journey.until(page, async () => (await page.innerText('main')).includes('answer=200'));

  // The other browser's session, and not their own.
  await journey.to(page, '/people');
  let theirs = false;
  for (let row = 0; row < 2 && !theirs; row += 1) {
    if (row > 0) await page.keyboard.press('Tab');
    await tabTo(page, 'a', 'End session of ana');
    theirs = await page.evaluate(() => !document.activeElement.closest('tr').innerText.includes('this one'));
  }
  check(theirs, 'no Tab leads to the other session');
  await journey.go(page, () => page.keyboard.press('Enter'));
  await heading(page, 'End a session of ana?');
  await journey.shot(page, 'session');
  await tabTo(page, 'button', 'End a session of ana');
  await journey.go(page, () => page.keyboard.press('Enter'));
  await journey.to(first, '/policies');
  check(first.url().startsWith(`${CONSOLE}/sign-in`), first.url());
  await journey.to(page, '/people');
  await heading(page, 'People');
});
