import t from 'tap'
import type { ObjectRecord, ReadonlyRecords } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import type { Forest } from '../../../../../../src/agentk/modules/views/tree/forest.ts'
import { Family, Node } from '../../../../../../src/agentk/modules/views/tree/forest-node.ts'
import { VisibleRecords } from '../../../../../../src/agentk/modules/views/tree/visible-records.ts'
import { ViewCauses } from '../../../../../../src/agentk/modules/views/view/view-causes.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { systemClock } from '../../../../../../src/lib/clock.ts'
import { seesAll } from '../../../../../support/views/sees-all.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'

const failing = (uid: string): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: uid, namespace: 'shop', uid },
  spec: { nodeName: 'n', restartPolicy: 'Always', containers: [{ name: 'app', image: 'app:1' }] },
  status: {
    phase: 'Pending',
    containerStatuses: [{ name: 'app', ready: false, state: { waiting: { reason: 'ErrImageNeverPull' } } }],
  },
})

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
  const forest = { visible: { opinions }, placesVersion: 0 } as unknown as Forest
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
  Object.assign(forest, { placesVersion: 1 })
  causes.update(forest, shown)
  t.equal(read, 2 * children, 'what changes elsewhere changes nothing of them')
  causes.childChanged('g:one')
  causes.update(forest, shown)
  t.equal(read, 3 * children)
  causes.reset()
  causes.update(forest, shown)
  t.equal(read, 5 * children, 'of what somebody else may see nothing is known')
})

t.test('a cause is chosen anew once a child has its place, though nothing is said otherwise by then', async (t) => {
  const stage = new ClusterStage(Date.parse('2026-11-20T10:00:00Z'), await rulesOf([]))
  t.teardown(() => stage.close())
  const { records, clock } = stage
  const visible = new VisibleRecords({ records, clock, turns: new TimeSlices(clock) }, seesAll)
  const forest = { visible, placesVersion: 0 } as unknown as Forest
  const group = new Node({ what: 'group', id: 'g', kind: 'Application', name: 'g', namespace: '' })
  const family = new Family(group, 'Pod', true)
  group.addFamily(family)
  const place = (uid: string) => family.add(new Node(records.get(uid) as ObjectRecord))
  const shown = new Map([[group.id, group]])
  const causes = new ViewCauses({ records, clock })
  stage.put(failing('a'))
  place('a')
  causes.update(forest, shown)
  t.match(causes.of('g'), { reason: 'ErrImageNeverPull', count: 1 })
  stage.put(failing('b'))
  Object.assign(forest, { placesVersion: 1 })
  causes.update(forest, shown)
  t.match(causes.of('g'), { count: 1 }, 'it waits for its place')
  place('b')
  causes.childChanged('g')
  t.strictSame(causes.update(forest, shown), { changed: ['g'], isWhole: true })
  t.match(causes.of('g'), { count: 2 })
})
