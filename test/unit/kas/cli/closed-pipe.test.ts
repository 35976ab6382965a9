import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { nodeFlags } from '../../../../dev/node-flags.ts'
import { checkedOutput } from '../../../support/output-schema.ts'
import { mainOf } from '../../../support/programs.ts'
import { startHostileServer } from './hostile-server.ts'
import { status } from './usual-answers.ts'

/** Many rows as JSON, for a reader who reads them all and for one who leaves. */

const count = 100_000
/** exit code that a shell reports for a program that SIGPIPE ended */
const brokenPipe = 141

/** on a busy machine the answer can take a second */
const onlyNotice = /^(?:kas: no answer from the kas on ops yet: [^\n]+\n)?$/

async function start(t: Test) {
  const { play } = await startHostileServer(t)
  const [agent] = status.agents
  const all = Array.from({ length: count }, (_, i) => ({ ...agent, agentId: String(i + 1) }))
  const body = JSON.stringify({ ...status, agents: all, agentCount: count })
  play.answer = () => ({ body })
  const child = spawn(process.execPath, [...nodeFlags, mainOf('kas'), 'status', '--socket', 'ops', '-o', 'json'])
  t.teardown(() => child.kill('SIGKILL'))
  return { child, stderr: text(child.stderr), exited: once(child, 'exit') }
}

t.test('100,000 rows as JSON are whole', { timeout: 60_000 }, async (t) => {
  const { child, stderr, exited } = await start(t)
  const printed = JSON.parse(await text(child.stdout)) as { agents: unknown[] }
  t.strictSame(await exited, [0, null])
  t.match(await stderr, onlyNotice)
  t.equal(printed.agents.length, count)
  t.match(printed.agents.at(-1), { agent: 100_000 })
  checkedOutput(JSON.stringify({ ...printed, agents: printed.agents.slice(-1) }))
})

t.test(
  'a pipe that is closed while 100,000 rows are printed as JSON ends the command without a word',
  { timeout: 60_000 },
  async (t) => {
    const { child, stderr, exited } = await start(t)
    await once(child.stdout, 'data')
    child.stdout.destroy()
    t.strictSame(await exited, [brokenPipe, null])
    t.match(await stderr, onlyNotice)
  },
)
