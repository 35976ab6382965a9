import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { agentTurns } from '../../../../../src/kas/modules/gitlab-access/agent-turns.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const [a, b] = [1n as AgentId, 2n as AgentId]
const never = new AbortController().signal
t.test('each agent has a few turns at once, the others wait in order', async (t) => {
  const clock = new ManualClock()
  const take = agentTurns({ clock }, { maxRunning: 2 })
  const begun: string[] = []
  const enter = async (name: string, agent: AgentId, signal = never) => {
    const leave = await take(agent, signal)
    begun.push(name)
    return leave
  }
  const [one, two] = await Promise.all([enter('one', a), enter('two', a)])
  const three = enter('three', a)
  const left = new AbortController()
  const gone = enter('gone', a, left.signal)
  const four = enter('four', a)
  const other = await enter('other', b)
  t.strictSame(begun, ['one', 'two', 'other'])
  const reason = new KasError({ code: 'CANCELLED' })
  left.abort(reason)
  await t.rejects(gone, reason)
  one()
  one()
  const leaveThree = await three
  t.strictSame(begun.slice(3), ['three'], 'a turn is given back once')
  leaveThree()
  ;(await four)()
  two()
  other()
  t.equal(clock.pending, 0)
  await t.rejects(enter('late', a, left.signal), reason)
  await Promise.all([enter('five', a), enter('six', a)])
  t.strictSame(begun.slice(4), ['four', 'five', 'six'], 'all turns are there again')
})

t.test('too many that wait, or for too long', async (t) => {
  const clock = new ManualClock()
  const take = agentTurns({ clock }, { maxRunning: 1, maxWaiting: 1, maxWaitMs: 1000 })
  const leave = await take(a, never)
  const waiting = take(a, never)
  await t.rejects(take(a, never), { grpcCode: 8, message: 'more than 1 requests of this agent wait' })
  clock.advance(999)
  await settle()
  const tooLate = t.rejects(waiting, { grpcCode: 8, message: 'requests of this agent had no turn for 1000 ms' })
  clock.advance(1)
  await tooLate
  leave()
  ;(await take(a, never))()
})
