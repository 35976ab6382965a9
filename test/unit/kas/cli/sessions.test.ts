import t, { type Test } from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { sessionActions, sessionAnswers } from '../../../../src/kas/servers/ops-socket/ops-answers.ts'
import { OpsSocket } from '../../../../src/kas/servers/ops-socket/ops-socket.ts'
import { ReplicaSessions } from '../../../../src/kas/sessions/replica-sessions.ts'
import { SessionTable } from '../../../../src/kas/sessions/session-table.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { FakePeers } from '../peers/fake-peers.ts'

async function start(t: Test, peers = new FakePeers()) {
  t.chdir(t.testdir()) // a short path, because the path of a socket is bounded
  const table = new SessionTable()
  const { log } = capturedLog()
  const sessions = new ReplicaSessions({ table, peers, name: 'kas-0', clock: systemClock, log })
  const socket = new OpsSocket(
    { answers: sessionAnswers(sessions), actions: sessionActions(sessions), log },
    { path: 'ops' },
  )
  await socket.start()
  t.teardown(() => socket.stop())
  const ended: string[] = []
  const add = (id: string, name: string, agent = 42n, userId = 5n) =>
    table.add({
      id,
      agentId: agent as AgentId,
      user: { id: userId, name },
      since: Date.now() - 240_000,
      lasts: true,
      fields: () => ({
        caller: { kind: 'personal_access_token', id: String(userId), name },
        agent_id: String(agent),
        verb: 'create',
        resource: 'pods',
        subresource: 'exec',
        namespace: 'web',
        name: 'front\u001b[2J',
        program: 'sh',
        address: '10.0.0.7',
      }),
      end: ({ message }) => ended.push(`${name}: ${message}`),
    })
  const run = async (...args: string[]) => {
    const said = { stdout: '', stderr: '' }
    const write = (name: keyof typeof said) => (text: string) => {
      said[name] += text
    }
    const io = {
      env: {},
      stdout: { write: write('stdout') },
      stderr: { write: write('stderr') },
      stdin: (async function* () {})(),
    }
    const code = await runCli(['sessions', ...args, '--socket', 'ops'], io)
    return { code, ...said }
  }
  return { add, run, ended, sessions }
}

t.test('what lasts, a line each', async (t) => {
  const { add, run } = await start(t)
  t.strictSame(await run(), { code: 0, stdout: 'nothing lasts\n', stderr: '' })
  add('11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'ada')
  add('22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'bob', 43n)
  const { code, stdout } = await run()
  t.equal(code, 0)
  const [head, ada, bob, ...more] = stdout.trimEnd().split('\n')
  t.match(head, /^ID +FOR +USER +AGENT +WHAT +FROM +REPLICA$/)
  t.match(ada, /^11111111 +4m +ada +42 +create pods\/exec web\/"front\\u001b\[2J" -- sh +10\.0\.0\.7 +kas-0$/)
  t.notOk(ada?.includes('\u001b'), 'what others have named steers no terminal')
  t.match(bob, /^22222222 .*bob +43 /)
  t.same(more, [])
  t.match((await run('--user', 'bob')).stdout, /22222222/)
  t.notMatch((await run('--agent', '42')).stdout, /22222222/)
  t.match(JSON.parse((await run('-o', 'json')).stdout), {
    kind: 'SessionList',
    items: [{ replica: 'kas-0', id: '11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', agent: 42 }, { agent: 43 }],
    total: 2,
    unreached: [],
  })
})

t.test('one is ended, or all of a user', async (t) => {
  const { add, run, ended } = await start(t)
  add('11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'ada')
  add('22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'bob')
  const { code, stdout } = await run('end', '11111111', '--reason', 'maintenance')
  t.equal(code, 0)
  t.equal(stdout, 'REPLICA  ENDED\nkas-0    1\n')
  t.same(ended.splice(0), ['ada: Ended by an operator: maintenance'])
  await run('end', '--user', 'bob')
  t.same(ended, ['bob: Ended by an operator'])
})

t.test('a number is an id: who has taken it as his name is not ended with its owner', async (t) => {
  const { add, run, ended } = await start(t)
  add('11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'ada')
  add('22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa', '5', 42n, 6n)
  t.notMatch((await run('--user', '5')).stdout, /22222222/)
  await run('end', '--user', '5')
  t.same(ended.splice(0), ['ada: Ended by an operator'])
  await run('end', '--user', '@5')
  t.same(ended, ['5: Ended by an operator'])
})

t.test('a replica that does not answer is named, and the command fails', async (t) => {
  const { run } = await start(t, new FakePeers(new Map([['kas-1', new Map()]])))
  const notes = { '': 'what goes on there is not known', 'end --user ada': 'what goes on there may not have ended' }
  for (const [line, note] of Object.entries(notes)) {
    const { code, stderr } = await run(...line.split(' ').filter(Boolean))
    t.equal(code, 1)
    t.equal(stderr, `note: kas-1 did not answer: ${note}\n`)
  }
  t.equal((await run()).stdout, 'nothing lasts at those that answered\n')
})

t.test('a command line that is wrong', async (t) => {
  const { add, run, ended } = await start(t)
  add('11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'ada')
  for (const [args, text] of [
    [['end'], /which\? Say an ID, --user or --agent/],
    [['end', '--reason', 'x'], /which\?/],
    [['end', '1111'], /8 characters or more/],
    [['end', '--user', '', '--agent', '42'], /--user is empty/],
    [['end', '--user', 'ada', '--agent', ''], /--agent is empty/],
    [['stop'], /too much/],
    [['--agent', 'x'], /whole number above zero/],
  ] as const) {
    const { code, stderr } = await run(...args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, text)
  }
  t.match(await run('end', '--user', 'ada', '--reason', 'x'.repeat(201)), { code: 1, stderr: /at most 200 characters/ })
  t.same(ended, [])
  t.match((await run('--help')).stdout, /usage: kas sessions end ID/)
})

t.test('a filter that is empty ends nothing, whoever sends it', async (t) => {
  const { add, ended, sessions } = await start(t)
  add('11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa', 'ada')
  const post = sessionActions(sessions)['/sessions/end']
  for (const query of ['', 'agent=42&user=', 'user=ada&id=', 'agent=&user=ada'])
    await t.rejects(async () => post?.(new URLSearchParams(query)), { code: 'INVALID_MESSAGE' }, query)
  t.same(ended, [])
})
