import t from 'tap'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import { agentsOfUser } from '../../../../../src/kas/directory/file/agents-of-user.ts'
import { parseDirectory } from '../../../../../src/kas/directory/file/directory-contents.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const count = 20
const { contents } = parseDirectory(
  'd.yaml',
  JSON.stringify({
    projects: [{ id: 1, path: 'p/one' }],
    agents: Array.from({ length: count }, (_, i) => ({ id: i + 1, name: `a${i + 1}`, project: 1 })),
    users: [
      { id: 5, username: 'ada', tokens: [{ sha256: 'a'.repeat(64) }], roles: { projects: { 1: ['developer'] } } },
    ],
  }),
)
const user = contents.userTokens.get('a'.repeat(64))?.owner
if (!user) throw new Error('the user is there')
const read = (text: string) => ({
  commit: 'c' as CommitId,
  configuration: parseAgentConfiguration('c.yaml', Buffer.from(text)),
  seenAt: 0,
  since: 0,
})
const open = read('user_access: { access_as: { agent: {} }, projects: [{ id: p/one }] }')
const signal = new AbortController().signal

t.test('those whose user_access lets him in, in the order of the file, a few read at once', async (t) => {
  let running = 0
  let most = 0
  const current = async ({ id }: Agent) => {
    most = Math.max(most, ++running)
    await new Promise(setImmediate)
    running--
    if (id === 3n) throw new Error('away')
    return id % 2n === 0n ? open : read('{}')
  }
  const found = await agentsOfUser(
    { configurations: { current }, clock: new ManualClock() },
    { user, contents },
    signal,
  )
  t.same(
    found.agents.map(({ id }) => Number(id)),
    [2, 4, 6, 8, 10, 12, 14, 16, 18, 20],
  )
  t.equal(found.unread, 1)
  t.equal(most, 4)
})

t.test('what cannot be read in time is counted', async (t) => {
  const clock = new ManualClock()
  const asked: bigint[] = []
  const current = ({ id }: Agent, ended: AbortSignal) => {
    asked.push(id)
    if (id === 1n) return Promise.resolve(open)
    return new Promise<never>((_, reject) => ended.addEventListener('abort', () => reject(new Error('late'))))
  }
  const found = agentsOfUser({ configurations: { current }, clock }, { user, contents }, signal)
  await new Promise(setImmediate)
  clock.advance(10_000)
  t.match(await found, { agents: [{ id: 1n }], unread: count - 1 })
  t.equal(asked.length, 5, 'the others are not begun')
})
