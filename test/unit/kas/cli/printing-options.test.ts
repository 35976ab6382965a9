import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'
import { outputOptions } from '../../../../src/kas/command/output.ts'
import { hasControls } from '../../../../src/lib/printable.ts'
import { run, startHostileServer } from './hostile-server.ts'
import { fullState } from './source-samples.ts'
import { agents, directory, ended, line, ofAgent, route, sessions, status, view } from './usual-answers.ts'

/** Tests `--no-headers`, `--no-color` and `--quiet` of each command that prints data. */

interface Asked {
  readonly answer?: unknown
  /** exit code; default: 0 */
  readonly code?: number
}

const asUser = { lines: [line], cut: true, unreached: [], incomplete: [] }
const usual: Readonly<Record<string, Asked>> = {
  'agent list': {},
  'agent show prod': {},
  'user list': {},
  'user show ada': {},
  'token list': {},
  'token show bbbbbbbb': {},
  agents: { answer: agents },
  sessions: { answer: { ...sessions, unreached: [] } },
  'sessions end --user ada': { answer: { ...ended, unreached: [] } },
  status: { answer: { ...status, modules: {} } },
  'status --agent 42': { answer: { ...ofAgent, modules: {} } },
  'route --agent 42': { answer: route },
  'log --kubeconfig config': { answer: asUser },
  'check-config --directory directory.yaml': {},
  'doctor --configuration-file absent.yaml': { code: 1 },
  'gitops status': { answer: fullState, code: 1 },
  'get deployments': {},
  'get events -A': {},
  tree: {},
  'health -A': { code: 4 },
}

async function begin(t: Test, { answer }: Asked) {
  const { play, folder } = await startHostileServer(t)
  play.answer = () => (answer === undefined ? undefined : { body: JSON.stringify(answer) })
  play.view = view
  await writeFile(join(folder, 'directory.yaml'), JSON.stringify(directory))
}

const isHead = (text: string) => /^ *[A-Z]{2}[A-Z0-9 ()]*$/.test(text)
const words = (text: string) =>
  text
    .split('\n')
    .filter((each) => !isHead(each))
    .map((each) => each.trim().split(/\s+/).join(' '))
/** Commands that print no tables with headers. */
const headless = /^(?:log|check-config|doctor|tree|health)/

for (const [asked, more] of Object.entries(usual)) {
  const { code = 0 } = more
  t.test(`kas ${asked}`, async (t) => {
    await begin(t, more)
    const table = await run(asked.split(' '))
    t.equal(table.code, code, table.stderr)
    t.not(table.stdout, '')
    t.equal(table.stdout.split('\n').some(isHead), !headless.test(asked), table.stdout)
    const bare = await run([...asked.split(' '), '--no-headers'])
    t.equal(bare.code, code)
    t.notOk(bare.stdout.split('\n').some(isHead), bare.stdout)
    t.strictSame(words(bare.stdout), words(table.stdout), 'all but the heads')
    const quiet = await run([...asked.split(' '), '-q'], { isTerminal: true })
    t.equal(quiet.code, code)
    t.equal(quiet.stdout, '')
    if (code === 0) t.equal(quiet.stderr, '')
  })
}

t.test('a quiet command that fails says why', async (t) => {
  await startHostileServer(t)
  for (const asked of ['agents', 'gitops status', 'status', 'user show ada --directory absent.yaml']) {
    const [loud, quiet] = [await run(asked.split(' ')), await run([...asked.split(' '), '--quiet'])]
    t.not(loud.code, 0, asked)
    t.not(loud.stderr, '', asked)
    t.strictSame(quiet, { ...loud, stdout: '' }, asked)
  }
})

t.test('colours are of terminals, and neither with --no-color nor with NO_COLOR', async (t) => {
  await begin(t, {})
  const isColoured = async (argv: string[], env: Record<string, string> = {}) => {
    const { stdout } = await run(argv, { isTerminal: true, env: { KAS_PAGER: '', ...env } })
    t.match(stdout, 'web')
    return hasControls(stdout.replaceAll('\n', ''))
  }
  for (const asked of ['tree', 'get deployments', 'health -A']) {
    t.equal(await isColoured(asked.split(' ')), true, asked)
    t.equal(await isColoured([...asked.split(' '), '--no-color']), false, asked)
    t.equal(await isColoured(asked.split(' '), { NO_COLOR: '1' }), false, asked)
    t.equal(await isColoured(asked.split(' '), { NO_COLOR: '' }), true, `${asked}: an empty NO_COLOR is none`)
  }
})

t.test('what does not go together is refused, with the reason, before anything is asked', async (t) => {
  const { play } = await startHostileServer(t)
  play.answer = () => {
    throw new Error('must not be asked')
  }
  const refused: [line: string, says: string][] = [
    ['agents --no-headers -o json', '--no-headers goes with tables, and -o json has no heads: leave out one of both'],
    ['agents --no-headers -o name', '--no-headers goes with tables, and -o name has no heads: leave out one of both'],
    ['gitops status -q -o yaml', '-q prints no data, and -o yaml says how to print it: leave out one of both'],
    ['gitops status -q -w', '-q prints no changes, and --watch has no end: leave out one of both'],
    ['get pods -qw', '-q prints no changes, and --watch has no end: leave out one of both'],
    ['log -qf', '-q prints no changes, and --follow has no end: leave out one of both'],
    [
      'sessions end --user ada -q -o table',
      '-q prints no data, and -o table says how to print it: leave out one of both',
    ],
  ]
  for (const [asked, says] of refused) {
    const { code, stdout, stderr } = await run(asked.split(' '))
    t.equal(code, 2, asked)
    t.equal(stdout, '', asked)
    t.ok(stderr.split('\n')[0]?.endsWith(`: ${says}`), stderr)
  }
})

t.test('each command that prints data takes them all', async (t) => {
  const entries = commandGroups.flatMap(({ commands }) => commands)
  const names = Object.keys(outputOptions)
  let printing = 0
  for (const { words, load } of entries) {
    const { options, outputs } = await load()
    const found = names.filter((name) => name in options)
    t.strictSame(found, outputs ? names : [], words)
    if (outputs) printing += 1
  }
  t.ok(printing > 15, `${printing} commands`)
})
