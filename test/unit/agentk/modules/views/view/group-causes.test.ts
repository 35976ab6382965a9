import t from 'tap'
import type { ObjectRecord, ReadonlyRecords } from '../../../../../../src/agentk/modules/views/store/record.ts'
import type { Forest } from '../../../../../../src/agentk/modules/views/tree/forest.ts'
import { Family, Node } from '../../../../../../src/agentk/modules/views/tree/forest-node.ts'
import { ViewCauses } from '../../../../../../src/agentk/modules/views/view/view-causes.ts'
import { systemClock } from '../../../../../../src/lib/clock.ts'

t.test('children of a group are read once, and again when one of them changes', async (t) => {
  const children = 1000
  let read = 0
  const opinions = {
    of: () => {
      read++
      return { word: 'Healthy', below: 'Healthy' }
    },
    version: 0,
    versionOf: () => 0,
  }
  const forest = { sight: { opinions }, comings: 0 } as unknown as Forest
  const groups = ['one', 'other'].map((name) => {
    const group = new Node({ what: 'group', id: `g:${name}`, kind: 'Application', name, namespace: '' })
    const family = new Family(group, 'Pod', true)
    group.addFamily(family)
    for (let i = 0; i < children; i++) {
      const record = { uid: `${name}-${i}`, kind: { key: 'Pod' }, name: `${i}`, namespace: name }
      family.add(new Node(record as ObjectRecord))
    }
    return group
  })
  const shown = new Map(groups.map((group) => [group.id, group]))
  const causes = new ViewCauses({ records: {} as ReadonlyRecords, clock: systemClock })
  t.strictSame(causes.update(forest, shown), { changed: [], isWhole: true })
  t.equal(read, 2 * children)
  Object.assign(opinions, { version: 1 })
  Object.assign(forest, { comings: 1 })
  causes.update(forest, shown)
  t.equal(read, 2 * children, 'what changes elsewhere changes nothing of them')
  causes.childChanged('g:one')
  causes.update(forest, shown)
  t.equal(read, 3 * children)
  causes.reset()
  causes.update(forest, shown)
  t.equal(read, 5 * children, 'of what somebody else may see nothing is known')
})
