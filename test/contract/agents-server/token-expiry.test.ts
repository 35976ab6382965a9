import { join } from 'node:path'
import t from 'tap'
import { DirectoryFile } from '../../../src/kas/directory/file/directory-file.ts'
import { FileDirectory } from '../../../src/kas/directory/file/file-directory.ts'
import { Code } from '../../../src/lib/errors.ts'
import { tokenHash } from '../../../src/lib/token-hash.ts'
import { callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const dayMs = 24 * 3_600_000
const agents = (clock: ManualClock) => [
  {
    id: 42,
    name: 'a',
    project: 1,
    tokens: [
      { sha256: tokenHash('short'), expires: new Date(clock.now() + dayMs).toISOString() },
      { sha256: tokenHash('long'), expires: new Date(clock.now() + 90 * dayMs).toISOString() },
    ],
  },
]

t.test(
  'a token of the directory file expires: idle tunnels end, new ones are refused, a running call goes on',
  async (t) => {
    const clock = new ManualClock()
    const file = join(
      t.testdir({ 'd.yaml': JSON.stringify({ projects: [{ id: 1, path: 'a' }], agents: agents(clock) }) }),
      'd.yaml',
    )
    const { log } = capturedLog()
    const directoryFile = new DirectoryFile({ log, clock }, { file })
    t.teardown(() => directoryFile.stop())
    await directoryFile.start()
    const configurations = { current: async () => undefined, onAnyChange: () => () => undefined }
    const directory = new FileDirectory({ directoryFile, configurations, log, clock })
    const { port, forward, tunnels } = await startAgentsServer(t, { components: { directory } })

    const agent = await FakeAgent.dial(port, 'short')
    t.teardown(() => agent.close())
    const [busy, idle] = [agent.open(), agent.open()]
    await agent.session.ping()
    const served = busy.serveEcho()
    const calling = Promise.withResolvers<void>()
    const call = callThrough(forward, [], {
      messages: (async function* () {
        yield Buffer.from('begun')
        await calling.promise
        yield Buffer.from('ended')
      })(),
    })
    while (tunnels.counts(42n as never, '/test.Echo/Echo').idle > 1) await new Promise(setImmediate)

    clock.advance(dayMs - 1)
    await agent.session.ping()
    t.equal(tunnels.counts(42n as never, '/test.Echo/Echo').idle, 1, 'a moment before nothing happens')
    clock.advance(1)
    t.equal((await idle.done).error, undefined, 'it ends with OK, as when a token is revoked')
    const { error } = await agent.open().done
    t.match(error, { grpcCode: Code.UNAUTHENTICATED })
    calling.resolve()
    t.same((await call).messages, ['begun', 'ended'])
    await served
    t.equal(clock.pending > 0, true, 'the other token is waited for')
  },
)
