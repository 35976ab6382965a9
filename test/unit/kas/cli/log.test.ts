import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AccessLine, accessLineText } from '../../../../src/kas/access-log/access-line.ts'
import { RecentLines } from '../../../../src/kas/access-log/recent-lines.ts'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { noPeers } from '../../../../src/kas/peers/peers.ts'
import { logStreams } from '../../../../src/kas/servers/ops-socket/ops-answers.ts'
import { OpsSocket } from '../../../../src/kas/servers/ops-socket/ops-socket.ts'
import { ReplicaLog } from '../../../../src/kas/sessions/replica-log.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const ada = { kind: 'ci_job', id: '5', name: 'ada', project: '3', job: '900', pipeline: '90' } as const
const deleted: AccessLine = {
  time: '2026-11-26T18:00:00.000Z',
  event: 'end',
  class: 'write',
  caller: ada,
  as: 'gitlab:user:ada',
  agent_id: '42',
  verb: 'delete',
  group: 'apps',
  resource: 'deployments',
  namespace: 'web',
  name: 'front\u001b[2J',
  status: 200,
  outcome: 'answered',
  entry: 'kas-0',
}
const exec: AccessLine = {
  time: '2026-11-26T18:00:01.000Z',
  event: 'begin',
  class: 'exec',
  agent_id: '42',
  verb: 'create',
  resource: 'pods',
  subresource: 'exec',
  name: 'a',
  program: 'sh',
  arguments: 2,
  status: 101,
  entry: 'kas-0',
}
const refused: AccessLine = {
  time: '2026-11-26T18:00:02.000Z',
  event: 'refused',
  class: 'refusal',
  address: '10.0.0.7',
  reason: 'USER_UNAUTHORIZED',
  count: 3,
  entry: 'kas-0',
}

async function start(t: Test) {
  const recent = new RecentLines()
  t.chdir(t.testdir()) // a short path, because the path of a socket is bounded
  const socket = new OpsSocket(
    {
      answers: {},
      streams: logStreams(new ReplicaLog({ recent, peers: noPeers, clock: systemClock })),
      log: capturedLog().log,
    },
    { path: 'ops' },
  )
  await socket.start()
  t.teardown(() => socket.stop())
  const add = (line: AccessLine) => recent.add(line, accessLineText(line))
  const said = { stdout: '', stderr: '' }
  let changed: (() => void) | undefined
  const write = (name: keyof typeof said) => (text: string) => {
    said[name] += text
    changed?.()
  }
  const kas = (...args: string[]) =>
    runCli(['log', ...args], {
      env: { KAS_OPS_SOCKET: 'ops' },
      stdout: { write: write('stdout') },
      stderr: { write: write('stderr') },
      stdin: (async function* () {})(),
    })
  const until = async (pattern: RegExp) => {
    while (!pattern.test(said.stdout)) {
      await new Promise<void>((resolve) => {
        changed = resolve
      })
    }
  }
  return { add, kas, said, until, socket }
}

t.test('a line each, for people', async (t) => {
  const { add, kas, said } = await start(t)
  for (const line of [deleted, exec, refused]) add(line)
  t.equal(await kas(), 0)
  t.equal(
    said.stdout,
    [
      '2026-11-26T18:00:00.000Z  ada (job 900)  as gitlab:user:ada  agent 42  delete deployments.apps web/"front\\u001b[2J"  200\n',
      '2026-11-26T18:00:01.000Z  -  agent 42  begin  create pods/exec a -- sh and 2 arguments  101\n',
      '2026-11-26T18:00:02.000Z  10.0.0.7  refused  USER_UNAUTHORIZED  3 times\n',
    ].join(''),
  )
})

t.test('whom a caller asked to act as', async (t) => {
  const { add, kas, said } = await start(t)
  const { as: _, ...asAgent } = deleted
  add({ ...asAgent, asked_as: ['user:eve\u001b[2J', 'group:system:masters'] })
  t.equal(await kas(), 0)
  t.match(said.stdout, '  ada (job 900)  asked as "user:eve\\u001b[2J", group:system:masters  agent 42  delete ')
})

t.test('each name is one word: a line is not read as two', async (t) => {
  const { add, kas, said } = await start(t)
  const name = 'x  200\n2026-11-26T18:00:00.000Z  root  as system:admin  agent 42  delete secrets kube-system  404'
  const path = '/version  200  root'
  for (const line of [
    { ...deleted, name },
    { ...deleted, namespace: 'a b', name: '"x"' },
    { ...deleted, caller: { ...ada, name: 'ada  as system:admin' }, as: 'gitlab:user:ada  agent 1', name: '' },
    { ...exec, program: "sh -c 'x'", name: '\u3164' },
    { ...refused, address: '10.0.0.7  refused', verb: 'GET', path, reason: 'it is  x' },
    {
      ...deleted,
      group: 'a  b',
      resource: 'x y',
      subresource: 'z\u2028',
      verb: 'get  x',
      outcome: 'a b',
      name: 'größe',
    },
  ])
    add(line)
  t.equal(await kas(), 0)
  t.strictSame(said.stdout.split('\n'), [
    `2026-11-26T18:00:00.000Z  ada (job 900)  as gitlab:user:ada  agent 42  delete deployments.apps web/${JSON.stringify(name)}  200`,
    '2026-11-26T18:00:00.000Z  ada (job 900)  as gitlab:user:ada  agent 42  delete deployments.apps "a b"/"\\"x\\""  200',
    '2026-11-26T18:00:00.000Z  "ada  as system:admin" (job 900)  as "gitlab:user:ada  agent 1"  agent 42  delete deployments.apps web/""  200',
    '2026-11-26T18:00:01.000Z  -  agent 42  begin  create pods/exec "\\u3164" -- "sh -c \'x\'" and 2 arguments  101',
    `2026-11-26T18:00:02.000Z  "10.0.0.7  refused"  refused  GET ${JSON.stringify(path)}  "it is  x"  3 times`,
    '2026-11-26T18:00:00.000Z  ada (job 900)  as gitlab:user:ada  agent 42  "get  x" "x y.a  b/z\\u2028" web/größe  200  "a b"',
    '',
  ])
})

t.test('those that fit, as they are', async (t) => {
  const { add, kas, said } = await start(t)
  for (const line of [deleted, exec, refused]) add(line)
  t.equal(await kas('--agent', '42', '--user', 'ada', '--verb', 'delete', '-o', 'json'), 0)
  t.equal(said.stdout, accessLineText(deleted))
  said.stdout = ''
  t.equal(await kas('--since', '2026-11-26T18:00:01Z', '-o', 'json'), 0)
  t.equal(said.stdout, accessLineText(exec) + accessLineText(refused))
  said.stdout = ''
  t.equal(await kas('--since', '10m'), 0)
  t.equal(said.stdout, '', 'none is of the last ten minutes')
  t.equal(await kas('--since', 'yesterday'), 1)
  t.match(said.stderr, /since: "yesterday" is neither a duration as 10m nor a time/)
})

t.test('those that come, until the replica leaves', async (t) => {
  const { add, kas, said, until, socket } = await start(t)
  add(deleted)
  const following = kas('--follow', '-o', 'json', '--agent', '42')
  await until(/deployments/)
  add(refused)
  add(exec)
  await until(/"program":"sh"/)
  t.notMatch(said.stdout, /refused/)
  await socket.stop()
  t.equal(await following, 1, 'it was cut')
})

t.test('no line, no replica, no such option', async (t) => {
  const { kas, said } = await start(t)
  t.equal(await kas(), 0)
  t.equal(said.stdout, '')
  t.equal(await kas('--socket', join('absent', 'ops')), 1)
  t.match(said.stderr, /no kas listens on absent\/ops/)
  t.equal(await kas('--usr', 'ada'), 2)
  t.match(said.stderr, /usage: kas log/)
  t.equal(await kas('--agent', 'prod'), 2)
  for (const name of ['agent', 'user', 'verb', 'since']) {
    t.equal(await kas(`--${name}`, ''), 2, 'else it would show what nobody has asked for')
    t.match(said.stderr, new RegExp(`--${name} is empty`))
  }
  t.equal(await kas('--help'), 0)
  t.match(said.stdout, /of the last 10,000 lines of each/)
  t.match(said.stdout, /Reads .* are not logged by default/)
})

t.test('switched off', async (t) => {
  const streams = logStreams(new ReplicaLog({ recent: undefined, peers: noPeers, clock: systemClock }))
  await t.rejects(async () => streams['/log']?.(new URLSearchParams()), /there is no access log/)
})
