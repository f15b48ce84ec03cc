// A browser at one appliance's console, and what every page that it shows must hold.
//
// play(journey) starts Chromium without a window, gives the journey what it needs, and ends both;
// a journey that throws, or a page that broke a promise, ends the process with 1.
'use strict';
const fs = require('fs');
const path = require('path');
const { execFileSync } = require('child_process');
const { chromium } = require('playwright-core');

const CONSOLE = process.env.GIG_TEST_CONSOLE;
const PASSWORD = 'correct horse battery';
const OWN_PASSWORD = 'a staple of their own';
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
// A machine ten times slower, and busy.
const PATIENCE = 180000;

class Journey {
  constructor(browser) {
    this.browser = browser;
    this.broken = [];
    this.shots = 0;
  }

  // Somebody with a browser of their own: no cookie is shared. `also`: where else it may be sent.
  async person({ also, ...options } = {}) {
    const context = await this.browser.newContext({ viewport: DESKTOP, colorScheme: 'light', ...options });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    // What a page's own policy refuses is told on its console, a script's error as pageerror.
    page.on('console', said => { if (said.type() === 'error' && !/status of 4\d\d/.test(said.text())) this.broken.push(`${page.url()}: ${said.text()}`); });
    page.on('pageerror', error => this.broken.push(`${page.url()}: ${error}`));
    page.on('request', asked => {
      const known = [CONSOLE, also].some(one => one !== undefined && asked.url().startsWith(`${one}/`));
      if (!known) this.broken.push(`${page.url()} asks for ${asked.url()}`);
    });
    return page;
  }

  async to(page, where) {
    const answer = await page.goto(new URL(where, CONSOLE).href);
    check(answer.ok(), `${where}: ${answer.status()}`);
  }

  // Does what leads to another page, and is there when this returns.
  async go(page, act) {
    const [answer] = await Promise.all([page.waitForNavigation({ timeout: PATIENCE }), act()]);
    await fits(page);
    // What answers a form is a page that no link leads to: it is looked at here, on a phone too.
    const before = page.viewportSize();
    await page.setViewportSize(PHONE);
    await fits(page);
    await page.setViewportSize(before);
    return answer;
  }

  async click(page, role, name, within = page) {
    return this.go(page, () => within.getByRole(role, { name, exact: true }).click());
  }

  // The first admin, by the link that gig printed.
  async first(options) {
    const page = await this.person(options);
    await this.to(page, process.env.GIG_TEST_SETUP);
    await page.getByLabel('Your name').fill('ana');
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByLabel('Password again').fill(PASSWORD);
    await this.click(page, 'button', 'Make the first admin');
    await heading(page, 'Overview');
    return page;
  }

  // Somebody whom the admin adds, and who then chooses a password of their own.
  async member(admin, name, role) {
    await this.to(admin, '/people');
    await admin.getByText('Add a user').click();
    await admin.getByLabel('Name', { exact: true }).fill(name);
    await admin.locator('#role').selectOption(role);
    await admin.getByLabel('First password').fill(PASSWORD);
    await this.click(admin, 'button', 'Add');
    const page = await this.person();
    await this.signIn(page, name, PASSWORD);
    await this.to(page, '/people');
    await page.getByText('Change your password').click();
    await page.getByLabel('Current password').fill(PASSWORD);
    await page.getByLabel('New password', { exact: true }).fill(OWN_PASSWORD);
    await page.getByLabel('New password again').fill(OWN_PASSWORD);
    await this.click(page, 'button', 'Change');
    await this.signIn(page, name, OWN_PASSWORD);
    return page;
  }

  async signIn(page, name, password) {
    await this.to(page, '/sign-in');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Password').fill(password);
    await this.click(page, 'button', 'Sign in');
    await heading(page, 'Overview');
  }

  // A policy of this name, written in the editor.
  async policy(page, name, document) {
    await this.to(page, '/policies');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await this.click(page, 'button', 'Write it');
    await page.getByLabel('Document').fill(document);
    await this.click(page, 'button', 'Save');
    await heading(page, name);
  }

  // A registered server that runs this shell script, under a policy.
  async server(page, name, script, policy, secrets = '') {
    await this.to(page, '/servers');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Program and arguments').fill(['/bin/sh', '-c', script].join('\n'));
    await page.getByLabel('Secrets').fill(secrets);
    await this.click(page, 'button', 'Register');
    if (policy === undefined) return;
    await this.to(page, `/policies/${policy}`);
    await page.getByLabel('Put it in force for').selectOption(name);
    await this.click(page, 'button', 'Put in force');
    await this.click(page, 'button', `Put ${policy} in force for server ${name}`);
  }

  // Starts it.
  async start(page, server) {
    await this.to(page, '/servers');
    const row = page.getByRole('row').filter({ has: page.getByText(server, { exact: true }) });
    await this.click(page, 'button', `Start ${server}`, row);
  }

  // Starts it, and waits until the sandbox's page says that it ended.
  async run(page, server) {
    await this.start(page, server);
    await heading(page, `Sandbox of ${server}`);
    await this.until(page, async () => await page.getByText('ended', { exact: true }).count() > 0);
  }

  // Reloads the page until it is so, as a person would.
  async until(page, is) {
    const begun = Date.now();
    while (!await is()) {
      if (Date.now() - begun > PATIENCE) throw new Error(`never on ${page.url()}: ${await page.innerText('main')}`);
      await new Promise(resolve => setTimeout(resolve, 100));
      await page.reload();
    }
  }

  // A command beside the appliance.
  gig(words, input = '') {
    return execFileSync(process.env.GIG_TEST_GIG, words, { input, encoding: 'utf8' }).trim();
  }

  async shot(page, name) {
    const file = `${process.env.GIG_TEST_SHOTS}-${String(++this.shots).padStart(2, '0')}-${name}.png`;
    fs.mkdirSync(path.dirname(file), { recursive: true });
    await page.screenshot({ path: file, fullPage: true, timeout: PATIENCE });
  }
}

function check(is, words) {
  if (!is) throw new Error(words);
}

async function heading(page, text) {
  await page.getByRole('heading', { level: 1 }).filter({ hasText: text }).waitFor();
}

// Nobody scrolls sideways to read it.
async function fits(page) {
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  check(wide <= room, `${page.url()} is ${wide} wide on a screen of ${room}`);
}

// By the devtools protocol, as all that is evaluated: the page's own policy stays in force.
const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// What axe-core finds that is serious.
async function axe(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  check(found.passes.length > 5, `${page.url()}: axe looked at nothing`);
  const serious = found.violations.filter(one => ['serious', 'critical'].includes(one.impact));
  return serious.map(one => `${page.url()}: ${one.id}: ${one.nodes.map(node => `${node.html.slice(0, 200)} ${node.failureSummary}`).join('; ')}`);
}

function play(journey) {
  const run = async () => {
    const browser = await chromium.launch({
      executablePath: process.env.GIG_TEST_BROWSER || '/usr/bin/chromium',
      timeout: PATIENCE,
      // Its own sandbox needs what this machine may not give; it sees nothing but our pages.
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
    });
    try {
      const made = new Journey(browser);
      await journey(made);
      check(made.broken.length === 0, made.broken.join('\n'));
    } finally {
      await browser.close();
    }
  };
  run().catch(error => {
    console.error(error);
    process.exitCode = 1;
  });
}

module.exports = { CONSOLE, DESKTOP, OWN_PASSWORD, PASSWORD, PATIENCE, PHONE, axe, check, fits, heading, play };
