import t from 'tap'
import { parseDirectory } from '../../../../../src/kas/directory/file/directory-contents.ts'
import { createDirectoryMetrics } from '../../../../../src/kas/directory/file/directory-metrics.ts'
import { EndingTokens } from '../../../../../src/kas/directory/file/ending-tokens.ts'
import { createRegistry } from '../../../../../src/lib/metrics.ts'
import { endsSoon } from '../../../../../src/lib/token-end.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** A directory with tokens of the user ada, the agent prod and a job. Ends in days from now; undefined: never. */
function contentsOf(clock: ManualClock, ends: { user?: number; agent?: number; job?: number }) {
  const expires = (days: number | undefined) =>
    days === undefined ? {} : { expires: new Date(clock.now() + days * dayMs).toISOString() }
  const hash = (letter: string) => ({ sha256: letter.repeat(64) })
  const tree = {
    projects: [{ id: 1, path: 'a' }],
    agents: [{ id: 42, name: 'prod', project: 1, tokens: [{ ...hash('a'), ...expires(ends.agent) }] }],
    users: [{ id: 5, username: 'ada', tokens: [{ name: 'laptop', ...hash('b'), ...expires(ends.user) }] }],
    ci_tokens: [{ ...hash('c'), user: 5, project: 1, job: 9, pipeline: 9, ...expires(ends.job) }],
  }
  return parseDirectory('d.yaml', JSON.stringify(tree)).contents
}

function start() {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const register = createRegistry()
  const ending = new EndingTokens({ clock, log, metrics: createDirectoryMetrics(register) })
  const counts = async () =>
    Object.fromEntries(
      [...(await register.metrics()).matchAll(/kas_directory_tokens_ending\{kind="(\w+)"\} (\d+)/g)].map((found) => [
        found[1],
        Number(found[2]),
      ]),
    )
  return { clock, lines, ending, counts }
}

t.test('tokens that end within 14 days have one line a day, and are counted', async (t) => {
  const { clock, lines, ending, counts } = start()
  t.teardown(() => ending.stop())
  ending.watch(contentsOf(clock, { user: 15, agent: 20, job: 1 }))
  t.strictSame(lines, [], 'none ends so soon; a token of a job ends with its job')
  t.strictSame(await counts(), { agent: 0, user: 0 })
  clock.advance(dayMs + hourMs)
  t.match(lines, [{ level: 'warn', count: 1, tokens: [{ of: 'user ada', name: 'laptop', sha256: 'b'.repeat(12) }] }])
  t.strictSame(await counts(), { agent: 0, user: 1 })
  clock.advance(dayMs - 2 * hourMs)
  t.equal(lines.length, 1, 'one a day')
  clock.advance(14 * dayMs)
  t.equal(lines.length, 15)
  t.strictSame(await counts(), { agent: 1, user: 0 }, 'that of ada has ended')
  t.match(lines.at(-1), { tokens: [{ of: 'agent prod', expires: /Z$/ }] })
  clock.advance(6 * dayMs)
  t.strictSame(await counts(), { agent: 0, user: 0 })
})

t.test('a file that changes often has no more lines, one that is mended has none', async (t) => {
  const { clock, lines, ending, counts } = start()
  for (let i = 0; i < 20; i++) {
    ending.watch(contentsOf(clock, { user: 3 }))
    clock.advance(60_000)
  }
  t.equal(lines.length, 1)
  t.equal(clock.pending, 1, 'one timer')
  ending.watch(contentsOf(clock, {}))
  t.strictSame(await counts(), { agent: 0, user: 0 })
  clock.advance(3 * dayMs)
  t.equal(lines.length, 1)
  ending.stop()
  t.equal(clock.pending, 0)
})

t.test('of many the first are named and all are counted', async (t) => {
  const { clock, lines, ending } = start()
  t.teardown(() => ending.stop())
  const tokens = Array.from({ length: 500 }, (_, i) => ({
    sha256: i.toString(16).padStart(64, '0'),
    expires: new Date(clock.now() + (1 + (i % 7)) * dayMs).toISOString(),
  }))
  ending.watch(parseDirectory('d', JSON.stringify({ users: [{ id: 1, username: 'u', tokens }] })).contents)
  t.match(lines, [{ count: 500 }])
  const [line] = lines as [{ tokens: unknown[] }]
  t.equal(line.tokens.length, 20)
})

t.test('14 days are the bound, and the past is none', async (t) => {
  t.equal(endsSoon(14 * dayMs, 0), true)
  t.equal(endsSoon(14 * dayMs + 1, 0), false)
  t.equal(endsSoon(1, 0), true)
  t.equal(endsSoon(0, 0), false)
  t.equal(endsSoon(undefined, 0), false)
})
