import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { checkedOutput, keysIn, outputKeys, outputKinds } from '../../../support/output-schema.ts'
import { run, startHostileServer } from './hostile-server.ts'
import { printedSources, sourceSamples } from './source-samples.ts'
import { agents, diff, directory, ended, gitops, ofAgent, route, sessions, status } from './usual-answers.ts'
import { printedView, viewSamples } from './view-samples.ts'

/**
 * Each command that prints data prints the keys of doc/reference/output.md. These lines print each key of that page.
 */

interface Sample {
  /** Name of the command in doc/reference/output.md. */
  readonly command: string
  /** arguments, without `-o` */
  readonly line: string
  /** answer of a server or of a replica's socket, to each path */
  readonly answer?: unknown
  /** answers to paths with these beginnings, in place of `answer` */
  readonly answers?: Readonly<Record<string, unknown>>
  readonly files?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
  /** default: 0 */
  readonly code?: number
}

const [replica] = sessions.replicas
const everySession = {
  ...replica?.sessions[0],
  as: 'gitlab:user:ada',
  asked_as: ['gitlab:user:bob'],
  path: '/version',
  view: 'pods in shop',
  label_selector: 'app=web',
  field_selector: 'spec.nodeName=a',
  arguments: 2,
  user_agent: 'kubectl/1.33',
  holder: 'kas-1',
}
const files = { 'directory.yaml': directory }
const oddAgentFile = { ci_access: { project: [] } }
const usable = {
  agent: { listen: { address: '127.0.0.1:0' } },
  observability: { listen: { address: '127.0.0.1:0' } },
  directory: { file: 'directory.yaml' },
  redis: { url: 'redis://x' },
}
/** without the socket of a replica */
const env = { KAS_OPS_SOCKET: '' }
const usableFiles = { 'directory.yaml': {}, 'kas.yaml': usable }

const samples: readonly Sample[] = [
  { command: 'kas agent list', line: 'agent list', files },
  { command: 'kas agent show', line: 'agent show prod', files },
  { command: 'kas user list', line: 'user list', files },
  { command: 'kas user show', line: 'user show ada', files },
  { command: 'kas token list', line: 'token list', files },
  { command: 'kas token show', line: 'token show bbbbbbbb', files },
  { command: 'kas agents', line: 'agents', answer: agents },
  {
    command: 'kas sessions',
    line: 'sessions',
    answer: { replicas: [{ ...replica, sessions: [everySession] }], unreached: ['kas-1'] },
    code: 1,
  },
  { command: 'kas sessions end', line: 'sessions end --user ada', answer: ended, code: 1 },
  {
    command: 'kas gitops drift',
    line: 'gitops drift 42-7 --scan',
    answers: { '/gitops/state': gitops, '/gitops/diff': diff },
    env: { KUBECONFIG: 'config' },
    code: 1,
  },
  { command: 'kas status', line: 'status', answer: status },
  { command: 'kas status', line: 'status --agent 42', answer: ofAgent },
  { command: 'kas route', line: 'route --agent 42', answer: route },
  {
    command: 'kas check-config',
    line: 'check-config --agent-file config.yaml',
    files: { 'config.yaml': oddAgentFile },
    code: 1,
  },
  {
    command: 'kas check-config',
    line: 'check-config --configuration-file kas.yaml',
    files: usableFiles,
    env,
  },
  { command: 'kas doctor', line: 'doctor --pre --configuration-file kas.yaml', files: usableFiles, env },
  { command: 'kas doctor', line: 'doctor --pre --configuration-file absent.yaml', code: 1 },
]

async function printed(
  t: Test,
  { line, answer, answers = {}, files: own = {}, env = {}, code = 0 }: Sample,
): Promise<Record<string, unknown>> {
  const { play, folder } = await startHostileServer(t)
  play.answer = (path) => {
    const [, own = answer] = Object.entries(answers).find(([start]) => path.startsWith(start)) ?? []
    return { body: JSON.stringify(own) }
  }
  for (const [name, content] of Object.entries(own)) await writeFile(join(folder, name), JSON.stringify(content))
  const ask = (format: string) => run(`${line} -o ${format}`.split(' '), { env })
  const said = { json: await ask('json'), yaml: await ask('yaml') }
  t.equal(said.json.code, code, said.json.stderr)
  t.equal(said.yaml.code, code)
  const value = checkedOutput(said.json.stdout)
  t.strictSame(untimed(checkedOutput(said.yaml.stdout, 'yaml')), untimed(value), 'YAML says the same')
  return value
}

/** Replaces times: those that come from an age differ from run to run. */
function untimed(value: object): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"TIME"'))
}

const keys = new Set<string>()
const commands = new Map<string, Set<string>>()

for (const sample of samples) {
  t.test(`kas ${sample.line} prints its kind`, async (t) => {
    note(sample.command, await printed(t, sample))
  })
}

for (const sample of viewSamples) {
  t.test(`kas ${sample.argv.join(' ')} prints its kinds`, async (t) => {
    for (const value of await printedView(t, sample)) note(sample.command, value)
  })
}

for (const sample of sourceSamples) {
  t.test(`kas gitops ${sample.args.join(' ')} prints its kinds`, async (t) => {
    for (const value of await printedSources(t, sample)) note(sample.command, value)
  })
}

function note(command: string, value: Record<string, unknown>): void {
  const kind = String(value.kind)
  commands.set(kind, (commands.get(kind) ?? new Set()).add(command))
  for (const key of keysIn(value)) keys.add(key)
}

t.test('each kind is printed by the commands that its comment names', async (t) => {
  const all = [...outputKinds].map(([kind, names]) => [kind, [...names].sort()])
  t.strictSame(
    all.map(([kind]) => [kind, [...(commands.get(String(kind)) ?? [])].sort()]),
    all,
  )
})

t.test('each key of each kind is printed by one of these lines', async (t) => {
  t.strictSame(
    outputKeys.filter((key) => !keys.has(key)),
    [],
  )
})

t.test('what is of no kind, has another key, or lacks one, is refused', async (t) => {
  const whole = { apiVersion: 'kas/v1', kind: 'AgentList', items: [] }
  t.strictSame(checkedOutput(JSON.stringify(whole)), whole)
  for (const [odd, message] of [
    [{ ...whole, kind: 'Other' }, /no kind Other/],
    [{ ...whole, more: 1 }, /Unrecognized key: "more"/],
    [{ ...whole, items: [{ id: -1 }] }, />=0\n.*items\[0\]\.id/],
    [{ ...whole, items: undefined }, /items/],
  ] as const) {
    t.throws(() => checkedOutput(JSON.stringify(odd)), { message })
  }
})
