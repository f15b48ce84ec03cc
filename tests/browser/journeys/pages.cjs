// Every page that can be reached by links from the overview, one of each kind.
const { CONSOLE } = require('./console.cjs');

// Two addresses are of one kind when they differ in names, numbers and values only.
function kind(url) {
  const words = url.pathname.split('/').filter(word => word !== '');
  // Below a section there is one thing of it.
  const shape = words.map((word, at) => at === 0 || /^[a-z]+$/.test(word) && at > 1 ? word : '*').join('/');
  const asked = [...new Set(url.searchParams.keys())];
  // The record since some time looks as it does since ever.
  const named = asked.filter(name => asked.length === 1 || !['since', 'until'].includes(name));
  return `${shape}?${named.sort().join('&')}`;
}

// Calls look(page, kind) on each; returns the kinds.
module.exports = async function everyPage(journey, page, look, also = []) {
  const known = new Map([['?', new URL('/', CONSOLE)]]);
  for (const where of also) known.set(kind(new URL(where, CONSOLE)), new URL(where, CONSOLE));
  const seen = [];
  while (known.size > seen.length) {
    const [one, url] = [...known].find(([one]) => !seen.includes(one));
    seen.push(one);
    await journey.to(page, url.href);
    const links = await page.getByRole('link').evaluateAll(links => links.filter(link => !link.hasAttribute('download')).map(link => link.href));
    for (const link of links.map(link => new URL(link))) {
      link.hash = '';
      if (link.origin !== CONSOLE) continue;
      if (!known.has(kind(link))) known.set(kind(link), link);
    }
    await look(page, one);
  }
  return seen;
};
