import t from 'tap'
import { type RoomUser, type Share, SharedTotal } from '../../../src/lib/shared-total.ts'

const isOne = (key: string) => key !== 'kas'

function ground(maxBytes = 100) {
  let full = 0
  const total = new SharedTotal({ maxBytes, isOne, onFull: () => full++ })
  const dropped: string[] = []
  /** Puts bytes of a caller of a tenant. @returns false: there was no room */
  const put = (name: string, bytes: number, how: { isIdle?: boolean; isNew?: boolean } = {}) => {
    const [tenant = '', caller = ''] = name.split(' ')
    const share = total.enter(tenant, caller)
    if (!(how.isNew ? share.admit(bytes) : share.add(bytes))) {
      share.leave()
      return false
    }
    let held = bytes
    const holder: RoomUser = {
      get bufferedBytes() {
        return held
      },
      isIdle: how.isIdle ?? false,
      drop: () => {
        dropped.push(name)
        give(share)
      },
    }
    const give = (of: Share) => {
      of.holders.delete(holder)
      of.remove(held)
      held = 0
      of.leave()
    }
    share.holders.add(holder)
    return { give: () => give(share) }
  }
  return { total, put, dropped, full: () => full }
}

t.test('one tenant may have all of it', async (t) => {
  const { put, dropped, total } = ground()
  t.ok(put('t a 1', 50))
  t.ok(put('t a 2', 50))
  t.equal(total.bytes, 100)
  t.same(dropped, [])
})

t.test('the tenant that holds most makes room, by the caller of it that holds most', async (t) => {
  const { put, dropped, full } = ground()
  put('good g 1', 30)
  put('evil a 1', 20)
  put('evil b 1', 30)
  put('evil b 2', 10)
  t.ok(put('good g 2', 15))
  t.same(dropped, ['evil b 1'], 'the larger of the two that b has')
  t.equal(full(), 1)
})

t.test('a caller in many tenants makes room, where it holds more than any tenant', async (t) => {
  const { put, dropped } = ground()
  for (let i = 0; i < 7; i++) put(`tenant-${i} job`, 10)
  put('good g', 25)
  t.ok(put('good h', 10))
  t.match(dropped, [/^tenant-\d job$/])
})

t.test('of a tenant the caller that holds most over all tenants makes room', async (t) => {
  const { put, dropped } = ground()
  put('shared good', 30)
  put('shared evil', 20)
  put('elsewhere evil', 25)
  put('other x', 25)
  t.ok(put('other y', 10))
  t.same(dropped, ['shared evil'])
})

t.test('a key that stands for many is none of them', async (t) => {
  const { put, dropped } = ground()
  for (let i = 0; i < 6; i++) put(`tenant-${i} kas`, 10)
  put('evil a', 40)
  t.ok(put('tenant-1 kas', 10))
  t.same(dropped, ['evil a'])
})

t.test('whoever holds most gets nothing new, and loses what is idle before', async (t) => {
  const { put, dropped } = ground()
  put('evil a call', 50)
  put('evil a kept', 10, { isIdle: true })
  put('good g', 40)
  t.ok(put('evil a next', 10, { isNew: true }))
  t.same(dropped, ['evil a kept'])
  t.notOk(put('evil a more', 10, { isNew: true }))
  t.same(dropped, ['evil a kept'], 'its calls go on')
  t.ok(put('good g more', 10, { isNew: true }))
  t.same(dropped, ['evil a kept', 'evil a call'])
})

t.test('what can never fit costs nobody anything', async (t) => {
  const { put, dropped } = ground()
  put('good g', 40)
  t.notOk(put('evil a', 101))
  t.same(dropped, [])
})

t.test('what those have left that have ended is passed over', async (t) => {
  const { put, dropped, total } = ground()
  const left = total.enter('evil', 'a')
  left.add(60)
  left.leave()
  put('good g', 40)
  t.ok(put('good h', 40))
  t.same(dropped, ['good g'])
  t.notOk(put('good i', 50))
  left.remove(60)
  t.ok(put('good i', 50))
})

t.test('nothing is known of who holds nothing', async (t) => {
  const { total, put } = ground()
  const one = put('t a', 10)
  const share = total.enter('t', 'a')
  if (one) one.give()
  t.equal(total.enter('t', 'a'), share, 'it is in use')
  share.leave()
  share.leave()
  t.not(total.enter('t', 'a'), share)
  t.equal(total.bytes, 0)
})
