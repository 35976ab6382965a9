import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'
import type { Command } from '../../../../src/kas/command/command.ts'
import { hostileNames, hostileText, mutated, steering } from '../../../support/hostile-texts.ts'
import { type Answer, kubeconfigText, run, startHostileServer, startRawServer } from './hostile-server.ts'
import {
  agentFile,
  agents,
  configuration,
  diff,
  directory,
  ended,
  events,
  gitops,
  groupList,
  heldObject,
  line,
  ofAgent,
  pathLine,
  refusedView,
  resources,
  route,
  sessions,
  status,
  view,
  viewError,
} from './usual-answers.ts'

/** No command lets a name from a server, an agent, a file or a caller steer a terminal. */

/** ids that connect the parts of an answer; with a longer or unknown one the whole answer is refused */
const ids = new Set(['u', 'order', 'id', 'seq'])

interface Case {
  /** command lines that ask for it */
  readonly lines: readonly string[]
  /** answers of a server, by the beginning of the path */
  readonly answers?: Readonly<Record<string, unknown>>
  readonly views?: readonly unknown[]
  readonly files?: Readonly<Record<string, unknown>>
  /** matches the strings to replace, each by itself; undefined: all, one by one and all at once */
  readonly only?: RegExp
  /** texts that are not JSON: logs */
  readonly texts?: Readonly<Record<string, string>>
}

/** A case of the directory. The schema refuses hostile names in most places; `check-config` covers these. */
const ofDirectory = (...lines: string[]): Case => ({
  lines,
  files: { 'directory.yaml': directory },
  only: /users\.0\.username|environment\.name|agents\.0\.name/,
})
const printedOnTerminals = ['', ' -o json']
const cases: Readonly<Record<string, Case>> = {
  agents: { lines: ['agents', 'agents -o json'], answers: { '/agents': agents } },
  kubeconfig: {
    lines: [
      'kubeconfig --all --server URL --token-file token --file made',
      'kubeconfig --all --server URL --token-file token --file -',
    ],
    answers: { '/agents': agents },
    files: { 'directory.yaml': directory },
  },
  tree: { lines: ['tree -v', 'tree -o json'], views: [view, refusedView, viewError] },
  get: {
    lines: [' -o wide', ' -o json', ' -o yaml', ' -o name']
      .map((more) => `get deployments${more}`)
      .concat('get events'),
    views: [view, refusedView, viewError],
  },
  health: {
    lines: printedOnTerminals.map((more) => `health${more}`),
    views: [view, refusedView, viewError],
    answers: { '/api/v1/namespaces/shop/events': events },
    texts: { '/api/v1/namespaces/shop/pods': `${hostileText}\n` },
  },
  'views role': {
    lines: ['views role'],
    answers: { '/views': view.update, '/apis/x.example/v1': resources, '/apis': groupList },
  },
  'gitops status': {
    lines: ['', ' -o wide', ' -o name', ' -o json', ' -o yaml'].map((more) => `gitops status${more}`),
    answers: { '/gitops/state': gitops },
  },
  'gitops wait': {
    lines: ['', ' -o json'].map((more) => `gitops wait --source 42-7 --timeout 1s${more}`),
    answers: { '/gitops/state': gitops },
  },
  'gitops drift': {
    lines: ['', ' --scan', ' -o name', ' -o json', ' -o yaml'].map((more) => `gitops drift 42-7${more}`),
    answers: { '/gitops/state': gitops, '/gitops/diff': diff },
  },
  'gitops hold': {
    lines: ['gitops hold x/web --for 1h', 'gitops hold y/web --for 0s'],
    answers: {
      '/apis/x.example/v1/namespaces': heldObject,
      '/apis/x.example/v1': resources,
      '/apis': groupList,
      '/api': { kind: 'APIVersions', versions: [] },
    },
  },
  'gitops approve': {
    lines: ['gitops approve 42-7', 'gitops approve', 'gitops approve 42-7 --yes'],
    answers: { '/gitops/state': gitops },
  },
  'gitops pause': { lines: ['gitops pause 42-7 --yes'], answers: { '/gitops/state': gitops } },
  'gitops resume': { lines: ['gitops resume 42-7 --yes'], answers: { '/gitops/state': gitops } },
  'gitops resync': { lines: ['gitops resync 42-7 --yes'], answers: { '/gitops/state': gitops } },
  'gitops forget': { lines: ['gitops forget 42-7', 'gitops forget'], answers: { '/gitops/state': gitops } },
  status: { lines: ['status', 'status -o json'], answers: { '/status': status } },
  'status --agent': { lines: ['status --agent 42'], answers: { '/status': ofAgent } },
  route: { lines: ['route --agent 42', 'route --agent 42 -o json'], answers: { '/route': route } },
  log: { lines: ['log', 'log -o json'], answers: { '/log': line } },
  'log of a path': { lines: ['log', 'log -o json'], answers: { '/log': pathLine } },
  sessions: { lines: ['sessions', 'sessions -o json'], answers: { '/sessions': sessions } },
  'sessions end': {
    lines: ['sessions end --user ada', 'sessions end --user ada -o json'],
    answers: { '/sessions/end': ended },
  },
  agent: ofDirectory('agent', 'agent --help', `agent ${hostileText.replaceAll(/\s/g, '')}`),
  'agent create': ofDirectory(
    'agent create x --project platform/clusters',
    'agent create prod --project platform/clusters',
  ),
  'agent list': ofDirectory('agent list', 'agent list -o json'),
  'agent show': ofDirectory('agent show prod', 'agent show prod -o json'),
  'agent delete': ofDirectory('agent delete prod', 'agent delete prod --print'),
  'agent rotate': ofDirectory('agent rotate prod', 'agent rotate prod --print'),
  token: ofDirectory('token'),
  'token create': ofDirectory('token create --user ada --token-name u', 'token create --user ada --print'),
  'token list': ofDirectory('token list', 'token list -o json'),
  'token show': ofDirectory('token show aaaaaaaa', 'token show bbbbbbbb', 'token show cccccccc -o json'),
  'token delete': ofDirectory('token delete bbbbbbbb --print'),
  'token revoke': ofDirectory('token revoke aaaaaaaa', 'token revoke dddddddd'),
  'token rotate': ofDirectory('token rotate bbbbbbbb --print'),
  user: ofDirectory('user'),
  'user create': ofDirectory('user create bob', 'user create ada'),
  'user list': ofDirectory('user list', 'user list -o json'),
  'user show': ofDirectory('user show ada', 'user show ada -o json'),
  'user delete': ofDirectory('user delete ada'),
  'user rotate': ofDirectory('user rotate ada'),
  completion: { lines: ['completion bash', 'completion zsh', 'completion fish'] },
  'check-config': {
    lines: ['', ' -o json', ' --strict'].flatMap((more) => [
      `check-config --directory directory.yaml${more}`,
      `check-config --agent-file agent.yaml${more}`,
      `check-config --configuration-file kas.yaml${more}`,
    ]),
    files: { 'directory.yaml': directory, 'agent.yaml': agentFile, 'kas.yaml': configuration },
  },
}

/** Plays the cases of a command: a hostile text in each single string, then in all of them at once. */
async function play(t: Test, { lines, answers = {}, views = [undefined], files = {}, texts = {}, only }: Case) {
  const { play: server, url, folder } = await startHostileServer(t)
  let played = 0
  const check = async (label: string, given: Played) => {
    server.answer = answerOf(given.answers, texts)
    server.view = given.view
    for (const [name, content] of Object.entries(given.files))
      await writeFile(join(folder, name), JSON.stringify(content))
    for (const words of lines) {
      const argv = words.replace('URL', url).split(' ')
      const isJson = /(?:-o json|--json)$/.test(words)
      for (const isTerminal of isJson ? [false] : [false, true]) {
        const { stdout, stderr } = await run(argv, { isTerminal })
        const found = { stdout: steering(stdout, isTerminal), stderr: steering(stderr, isTerminal) }
        if (found.stdout.length + found.stderr.length > 0) t.fail(`${words}, ${label}`, { found })
        if (isJson && stdout !== '') JSON.parse(stdout)
        played += 1
      }
    }
    const made = await readFile(join(folder, 'made'), 'utf8').catch(() => '')
    await rm(join(folder, 'made'), { force: true })
    if (steering(made).length > 0 || made.includes('EVIL')) t.fail(`${label}: the file`, { made })
  }
  for (const view of views) {
    const given = { answers, files, view }
    await check('as it is', given)
    for (const [path, one] of mutated(given, hostileText, ids)) {
      if (only === undefined || only.test(path)) await check(path, one as Played)
    }
    if (only) continue
    for (const [name, text] of Object.entries(hostileNames)) await check(name, everywhere(given, text) as Played)
  }
  t.ok(played > 0, `${played} lines`)
}

type Played = Required<Pick<Case, 'answers' | 'files'>> & { readonly view: unknown }

function answerOf(answers: Readonly<Record<string, unknown>>, texts: Readonly<Record<string, string>>): Answer {
  return (path) => {
    const text = Object.entries(texts).find(([start]) => path.startsWith(start))
    if (text) return { body: text[1] }
    const found = Object.entries(answers).find(([start]) => path.startsWith(start))
    return found && { body: `${JSON.stringify(found[1])}\n` }
  }
}

/** Adds `text` to all strings of a value except ids. */
function everywhere(value: unknown, text: string, name = ''): unknown {
  if (typeof value === 'string') return ids.has(name) ? value : `${value}${text}`
  if (Array.isArray(value)) return ids.has(name) ? value : value.map((one) => everywhere(one, text, name))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, everywhere(one, text, key)]))
}

for (const [words, one] of Object.entries(cases)) {
  t.test(`kas ${words}: no string of an answer or a file steers a terminal`, (t) => play(t, one))
}

t.test('each command is among them', async (t) => {
  const known = new Set(Object.keys(cases))
  // see test/contract/agentk/doctor.test.ts, test/unit/kas/cli/doctor.test.ts and
  // test/unit/kas/modules/gitops/cli/diff/diff.test.ts, which needs a repository
  const elsewhere = ['doctor', 'diff']
  const all = commandGroups.flatMap(({ commands }) => commands.map(({ words }) => words))
  t.strictSame(
    all.filter((each) => !known.has(each) && !elsewhere.includes(each)),
    [],
  )
})

t.test('a command that is new, and makes nothing printable, steers no terminal either', async (t) => {
  const command: Command = {
    usage: 'new',
    options: {},
    async run(_, { io }) {
      io.stdout.write(`${hostileText}\n`)
      io.stdout.draw(`\u001b[32mwell\u001b[0m ${hostileText.replaceAll('\u001b[', '')}\n`)
      io.stderr.write(hostileText)
      throw new Error(hostileText)
    },
  }
  const group = { task: 'see', help: ['new', ''], commands: [{ words: 'new', load: async () => command }] } as const
  for (const isTerminal of [false, true]) {
    const { code, stdout, stderr } = await run(['new'], { isTerminal, groups: [group] })
    t.equal(code, 1)
    t.strictSame(steering(stdout, isTerminal), [])
    t.strictSame(steering(stderr, isTerminal), [])
    t.equal(stdout.includes('\u001b[32mwell\u001b[0m'), isTerminal, 'its own colours are of a terminal')
    t.match(stdout, 'EVIL')
  }
})

const asked = [
  'agents',
  'kubeconfig --all --server URL --token-file token --file made',
  'tree',
  'get pods',
  'health',
  'views role',
  'gitops status',
]

t.test('what refuses an answer steers no terminal: a Status, a page of what is in front, a line of HTTP', async (t) => {
  const { play: server, url, folder } = await startHostileServer(t)
  const bodies = [
    JSON.stringify({ kind: 'Status', message: hostileText }),
    hostileText,
    JSON.stringify({ [hostileText]: 1 }),
  ]
  for (const body of bodies) {
    for (const status of [400, 401, 403]) {
      server.answer = () => ({ status, body })
      for (const words of asked) await refusedCleanly(t, words.replace('URL', url))
    }
  }
  server.answer = () => ({ body: bodies[2] as string })
  for (const words of asked.filter((each) => !/^(?:tree|get|health)/.test(each)))
    await refusedCleanly(t, words.replace('URL', url))
  const line = Buffer.from(`HTTP/1.1 403 ${hostileText}\r\nX-${hostileText}: ${hostileText}\r\n\r\n${hostileText}`)
  const raw = await startRawServer(t, line)
  await writeFile(join(folder, 'config'), kubeconfigText(raw))
  for (const words of asked.filter((each) => !/^(?:tree|get|health)/.test(each)))
    await refusedCleanly(t, words.replace('URL', raw))
})

async function refusedCleanly(t: Test, line: string): Promise<void> {
  const { code, stdout, stderr } = await run(line.split(' '))
  t.not(code, 0, line)
  t.strictSame([...steering(stdout), ...steering(stderr)], [], line)
}

t.test('a library that reads a file writes nothing past the command', async (t) => {
  const { folder } = await startHostileServer(t)
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => warnings.push(message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const directive = '%NEW \u001b[31mEVIL\n---\n'
  await writeFile(join(folder, 'config'), `${directive}${await readFile(join(folder, 'config'), 'utf8')}`)
  await writeFile(join(folder, 'x.yaml'), `${directive}? { a: "\\e[31mEVIL" }\n: 1\n`)
  const { code, stderr } = await run(['health', '-f', 'x.yaml'])
  t.equal(code, 2)
  t.match(stderr, 'an object has apiVersion')
  await run(['gitops', 'status'])
  await setImmediate() // node warns in a later turn
  t.strictSame(warnings, [])
})

t.test('kas kubeconfig names what it refuses, and writes nothing', async (t) => {
  const { play: server, url, folder } = await startHostileServer(t)
  const line = `kubeconfig --all --server ${url} --token-file token --file made`.split(' ')
  const [agent] = agents.agents
  const refusals: [more: object, said: string][] = [
    [{ name: 'pr\u200bod' }, 'agents.0.name is missing or wrong, allowed is the name of an agent'],
    [{ name: '--kubeconfig=x' }, 'agents.0.name'],
    [{ name: 'a'.repeat(64) }, 'agents.0.name'],
    [{ project: 'platform/clusters\n- name: x' }, 'agents.0.project is missing or wrong, allowed is a path such as'],
    [{ project: 'a; rm -rf ~' }, 'agents.0.project'],
    [{ project: '-x/y' }, 'agents.0.project'],
    [{ project: 'a/'.repeat(600).concat('b') }, 'agents.0.project'],
  ]
  for (const [more, said] of refusals) {
    server.answer = () => ({ body: JSON.stringify({ ...agents, agents: [{ ...agent, ...more }] }) })
    const { code, stderr } = await run(line)
    t.equal(code, 1)
    t.match(stderr, said)
    await t.rejects(readFile(join(folder, 'made')), { code: 'ENOENT' })
  }
  server.answer = () => ({ body: JSON.stringify(agents) })
  t.equal((await run(line)).code, 0, 'a usual name is taken')
  t.match(await readFile(join(folder, 'made'), 'utf8'), 'platform/clusters:prod')
})
