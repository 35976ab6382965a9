import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { RoundTurns } from '../../../../../src/kas/modules/gitops/round-turns.ts'

const [a, b, c] = [1n, 2n, 3n] as AgentId[] as [AgentId, AgentId, AgentId]
const { signal } = new AbortController()

t.test('so many at once, few of one agent, in their order', async (t) => {
  const turns = new RoundTurns({ maxRounds: 3, maxRoundsOfAgent: 2, maxWaiting: 10 })
  const begun: string[] = []
  const take = (agentId: AgentId, name: string) =>
    turns.take(agentId, signal).then((end) => {
      begun.push(name)
      return end
    })
  const [one, two] = [await take(a, 'a1'), await take(a, 'a2')]
  const third = take(a, 'a3')
  const other = await take(b, 'b1')
  const last = take(c, 'c1')
  t.strictSame(begun, ['a1', 'a2', 'b1'])
  other()
  ;(await last)()
  t.strictSame(begun, ['a1', 'a2', 'b1', 'c1'], 'the share of a is taken')
  one()
  ;(await third)()
  two()
  t.strictSame(begun, ['a1', 'a2', 'b1', 'c1', 'a3'])
})

t.test('waits are bounded, and end with their signal; a turn that came too late is handed on', async (t) => {
  const turns = new RoundTurns({ maxRounds: 1, maxRoundsOfAgent: 1, maxWaiting: 2 })
  const end = await turns.take(a, signal)
  const [left, late] = [new AbortController(), new AbortController()]
  const waiting = turns.take(b, left.signal)
  const tooLate = turns.take(b, late.signal)
  await t.rejects(turns.take(c, signal), { code: 'TOO_MANY_STREAMS' })
  left.abort(new Error('left'))
  await t.rejects(waiting, { message: 'left' })
  const third = turns.take(c, signal)
  late.abort(new Error('late'))
  end() // before the one that left could say so
  await t.rejects(tooLate, { message: 'late' })
  ;(await third)()
  ;(await turns.take(a, signal))()
  await t.rejects(turns.take(a, AbortSignal.abort(new Error('gone'))), { message: 'gone' })
})
