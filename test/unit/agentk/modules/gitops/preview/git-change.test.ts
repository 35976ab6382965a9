import t from 'tap'
import { pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'
import { gitChanges } from '../../../../../../src/agentk/modules/gitops/preview/git-change.ts'

const changes = (before: object, after: object) =>
  gitChanges({ spec: before }, { spec: after }).map(
    ({ path, kind, before, after }) => `${kind} ${pathText(path)} ${JSON.stringify(before)} ${JSON.stringify(after)}`,
  )

t.test('items of lists are compared by their names', async (t) => {
  const item = (name: string, value: number) => ({ name, value })
  t.strictSame(changes({ list: [item('a', 1), item('b', 2)] }, { list: [item('a', 1), item('b', 3)] }), [
    'changed .spec.list[name="b"].value 2 3',
  ])
  t.strictSame(changes({ list: [item('a', 1), item('b', 2)] }, { list: [item('b', 2), item('a', 1)] }), [
    'reordered .spec.list ["a","b"] ["b","a"]',
  ])
  t.strictSame(changes({ list: [item('a', 1)] }, { list: [item('a', 1), item('c', 3)] }), [
    'added .spec.list[name="c"].name undefined "c"',
    'added .spec.list[name="c"].value undefined 3',
  ])
  const same = [item('a', 1), item('a', 2)]
  t.strictSame(changes({ list: same }, { list: [item('a', 1)] }), [
    `changed .spec.list ${JSON.stringify(same)} ${JSON.stringify([item('a', 1)])}`,
  ])
})

t.test('each item of a wide list is read a few times, so that tunnels do not wait for it', async (t) => {
  const count = 2000
  let reads = 0
  const wide = (value: number) =>
    Array.from({ length: count }, (_, i) => ({
      get name() {
        reads += 1
        return `item-${i}`
      },
      value,
    }))
  t.equal(gitChanges({ list: wide(1) }, { list: wide(2) }).length, count)
  t.ok(reads < 20 * count, `${reads} reads of ${count} items`)
})
