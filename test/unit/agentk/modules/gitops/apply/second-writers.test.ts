import t from 'tap'
import { SecondWriters } from '../../../../../../src/agentk/modules/gitops/apply/second-writers.ts'
import type { RoundEnd } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const end = (
  name: string,
  fields: readonly string[] | undefined,
  { manager = 'robot', digest = 'd', kind = 'ConfigMap' } = {},
) => {
  const manifest = { key: { group: '', kind, namespace: 'shop', name }, digest }
  const overwritten = fields?.map((field) => ({ field, manager, subresource: '' }))
  return {
    manifest,
    end: overwritten ? { kind: 'applied', overwritten } : { kind: 'unchanged' },
  } as unknown as RoundEnd
}

t.test('who writes a field again is named; once is nobody’s fight', async (t) => {
  const clock = new ManualClock()
  const writers = new SecondWriters(clock)
  t.strictSame(writers.observe([end('a', ['.data.i']), end('b', [])]), [])
  clock.advance(100_000)
  const advice = 'leave that out of the manifest, or stop robot'
  const note = `ConfigMap shop/a: robot writes .data.i as well, and was undone 2 times in 2 min: ${advice}`
  t.strictSame(writers.observe([end('a', ['.data.i', '.data.j'])]), [note])
  t.strictSame(writers.observe([end('a', undefined)]), [note], 'a round that changes nothing takes nothing back')
  t.strictSame(writers.observe([end('a', ['.data.i'], { manager: 'other' })]), [note], 'each manager for itself')
  t.match(writers.observe([end('a', ['.data.i', '.data.j', '.data.k', '.data.l'])]), [/writes \.data\.j, \.data\.i as/])
  t.match(writers.observe([end('a', ['.a', '.data.i', '.data.j', '.data.k', '.data.l'])]), [
    /writes \.data\.l, \.data\.k, \.data\.j and 1 more fields as well, and was undone 4 times/,
  ])
  t.strictSame(writers.observe([end('a', [], { digest: 'other' })]), [], 'the manifest leaves the field out')
})

t.test('of a Secret no keys are shown', async (t) => {
  const writers = new SecondWriters(new ManualClock())
  const secret = end('a', ['.data.pw', '.data.tls.key', '.type'], { kind: 'Secret' })
  writers.observe([secret])
  t.match(writers.observe([secret]), [
    /^Secret shop\/a: robot writes \.type, \.data\.… as well, and was undone 2 times/,
  ])
})

t.test('what is kept, and said, has bounds', async (t) => {
  const clock = new ManualClock()
  const writers = new SecondWriters(clock)
  const many = Array.from({ length: 300 }, (_, i) => end(`m${i}`, ['.data.i']))
  writers.observe(many)
  const notes = writers.observe(many.slice(100))
  t.strictSame([notes.length, notes.at(-1)], [6, 'and 195 more that others write again and again'])
  t.match(writers.observe(many.slice(299)), [/m299/], 'what has left the commit is forgotten')
  clock.advance(24 * 3600_000 + 1)
  t.strictSame(writers.observe([end('m299', undefined)]), [], 'and what nobody has written for a day')
  const fields = Array.from({ length: 30 }, (_, i) => `.data.${i}`)
  writers.observe([end('a', fields)])
  t.match(writers.observe([end('a', fields)]), [/and 17 more fields/])
})
