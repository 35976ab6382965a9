import t from 'tap'
import { RecentlyUsed } from '../../../../src/kas/repositories/recently-used.ts'

function keeping(max: number) {
  const ended: string[] = []
  const kept = new RecentlyUsed<{ inUse: boolean }>({ ended: (key) => void ended.push(key) }, { max })
  const at = (key: string, inUse = false) => kept.at(key, () => ({ inUse }))
  return { kept, at, ended }
}

t.test('the longest unused one makes room', async (t) => {
  const { kept, at, ended } = keeping(2)
  const first = at('a')
  at('b')
  t.equal(at('a'), first)
  at('c')
  t.same(ended, ['b'])
  kept.clear()
  t.same(ended, ['b', 'a', 'c'])
})

t.test('one that is in use stays, and so does the one that was just made', async (t) => {
  const { kept, at, ended } = keeping(1)
  const busy = at('a', true)
  const newest = at('b')
  t.same(ended, [])
  t.equal(kept.peek('b'), newest)
  busy.inUse = false
  at('b')
  t.same(ended, ['a'])
  t.equal(kept.peek('a'), undefined)
})
