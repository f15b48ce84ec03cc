// An appliance as after some work, so that every page has something to show: people, tokens, policies,
// a sandbox that was allowed and denied, hostile words, webhooks, a floor, a saved search, a request and a
// proposal that wait.
const { check } = require('./console.cjs');

const HOSTILE = "'<script>alert(1)</script>\u202eevil\u202c'";

// As long as names are.
const LONGEST = `${'W'.repeat(62)}-x`;

module.exports = async function furnish(journey) {
  const ana = await journey.first();
  await journey.member(ana, 'cem', 'approver');
  // As single sign-on names people: the head of each of their pages has it.
  await journey.member(ana, 'anastasia.petrova@engineering.example.com', 'admin');
  await journey.to(ana, '/people');
  await ana.getByText('Make a token').click();
  await ana.getByLabel('What it is for').fill('pipeline');
  await journey.click(ana, 'button', 'Make');
  await ana.getByText('Make a token').click();
  await ana.getByLabel('What it is for').fill(LONGEST);
  await journey.click(ana, 'button', 'Make');
  await ana.getByText('Make a team').click();
  await ana.getByLabel('Its name').fill('data');
  await ana.getByLabel('Who is of it').fill('Ana cem, a-gateways-person@corp.example.test');
  await journey.click(ana, 'button', 'Make the team');
  await journey.to(ana, '/secrets');
  await ana.getByLabel('Name', { exact: true }).fill('API_TOKEN');
  await ana.getByLabel('Value', { exact: true }).fill('a-value-of-some-length');
  await journey.click(ana, 'button', 'Keep it');
  const document = 'version: 1\nname: web\negress:\n' +
    '  - {host: api.example.test, ports: [80], rules: [{methods: [GET], paths: ["/v1/**"]}], secrets: [API_TOKEN, FORGOTTEN]}\n' +
    '  - host: "*.packages.example.test"\n  - host: a-host-with-a-rather-long-name.of-a-department.example.test\n';
  await journey.policy(ana, 'web', document);
  await journey.to(ana, '/policies/web/edit');
  await ana.getByLabel('Document').fill(`${document}  - host: more.example.test\n`);
  await ana.getByLabel('Why').fill(`the team asked for it; ${HOSTILE}`);
  await journey.click(ana, 'button', 'Save');
  // For a team, and no longer: what is in force stays the server's.
  await journey.to(ana, '/policies/web');
  await ana.getByLabel('Put it in force for').selectOption('team data');
  await journey.click(ana, 'button', 'Put in force');
  await journey.click(ana, 'button', 'Put web in force for team data');
  await journey.click(ana, 'link', 'Take it out of force for team data');
  await journey.click(ana, 'button', 'Take web out of force for team data');
  const ask = (name, where) => `curl -s -o /dev/null -m 60 ${name} ${where}`;
  const script = [
    ask('', 'http://api.example.test/v1/items'),
    ask('', 'http://api.example.test/v2/items'),
    ask('-X POST', `http://api.example.test/v1/${'very-long-path/'.repeat(12)}`),
    ask('', 'http://an-unknown-host.with-quite-a-long-name.example.org/'),
    ask('', 'http://telemetry.example.net/'),
    `printf 'done %s\\n' ${HOSTILE}`,
  ].join('; ');
  await journey.server(ana, 'reader', script, 'web', 'API_TOKEN');
  await journey.server(ana, 'idle', 'exec sleep 100000');
  await journey.policy(ana, LONGEST, 'version: 1\negress: []\n');
  await journey.server(ana, LONGEST, 'exec sleep 100000', LONGEST);
  await journey.start(ana, LONGEST);
  await journey.run(ana, 'reader');
  await journey.start(ana, 'idle');
  await journey.policy(ana, 'bound', 'version: 1\negress:\n  - host: "*.example.test"\n');
  await ana.getByLabel('Make it the floor of').selectOption('idle');
  await journey.click(ana, 'button', 'Set the floor');
  await journey.click(ana, 'button', 'Make bound the floor of server idle');
  // Without the secret that signs: nothing is sent.
  for (const [name, kind, address, answerers] of [['program', 'generic', 'https://hooks.example.test/a/path', 'ana cem'], ['channel', 'slack', '', '']]) {
    await journey.to(ana, '/settings');
    await ana.getByText('Set up a webhook, or change one').click();
    await ana.getByLabel('Name', { exact: true }).fill(name);
    await ana.getByLabel('Kind').selectOption(kind);
    await ana.getByLabel('Address').fill(address);
    await ana.getByLabel('Who may answer from there').fill(answerers);
    if (kind === 'generic') await ana.getByLabel('write rules for ever').check();
    await journey.click(ana, 'button', 'Save');
    check((await ana.innerText('main')).includes(name), `no webhook ${name}`);
  }
  await journey.to(ana, '/audit?verdict=deny');
  await ana.getByLabel('Keep this search').fill(`denials; ${HOSTILE}`);
  await journey.click(ana, 'button', 'Save');
  // Somebody is asked, and does not answer.
  await journey.policy(ana, 'asked', 'version: 1\nhold: 10m\negress:\n  - host: other.example.test\n');
  await journey.server(ana, 'patient', ask('-X POST', `http://asks.example.test/${'a-path/'.repeat(20)}%3Cscript%3E`).replace('-m 60', '-m 600'), 'asked');
  await journey.start(ana, 'patient');
  await journey.to(ana, '/approvals');
  await journey.until(ana, async () => await ana.getByRole('button', { name: 'Allow once' }).count() > 0);
  // Two people from now on, and something that waits.
  await journey.to(ana, '/approvals');
  await journey.click(ana, 'button', 'Turn it on');
  await journey.to(ana, '/policies/web/edit');
  await ana.getByLabel('Document').fill(document);
  await ana.getByLabel('Why').fill('less is enough');
  await journey.click(ana, 'button', 'Propose');
  return ana;
};
