import t from 'tap'
import { ListTurns } from '../../../../../../src/agentk/modules/views/watch/list-turns.ts'
import { settle } from '../../../moving-clock.ts'

t.test('a few lists at once, first come, first served', async (t) => {
  const turns = new ListTurns(2)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const stopping = new AbortController()
  const list = async (name: string, signal = new AbortController().signal) => {
    const end = await turns.take(signal)
    begun.push(name)
    ends.set(name, end)
  }
  const lists = [list('a'), list('b'), list('c'), list('d', stopping.signal), list('e')]
  await settle()
  t.strictSame(begun, ['a', 'b'])
  ends.get('b')?.()
  ends.get('b')?.() // twice is once
  await settle()
  t.strictSame(begun, ['a', 'b', 'c'])
  stopping.abort(new Error('stopped'))
  await t.rejects(lists[3] as Promise<void>, { message: 'stopped' })
  ends.get('a')?.()
  await settle()
  t.strictSame(begun, ['a', 'b', 'c', 'e'], 'who does not wait any more has no turn')
  ends.get('c')?.()
  ends.get('e')?.()
  await list('f')
  await list('g')
  t.strictSame(begun.slice(-2), ['f', 'g'])
  await t.rejects(turns.take(AbortSignal.abort(new Error('stopped'))), { message: 'stopped' })
})
