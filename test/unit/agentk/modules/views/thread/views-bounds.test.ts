import t from 'tap'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import { Records, recordsDefaults } from '../../../../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'
import { viewsBounds } from '../../../../../../src/agentk/modules/views/thread/views-bounds.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { recordOf } from '../../../../../support/views/records.ts'
import { user, ViewStage } from '../../../../../support/views/view-stage.ts'
import { kinds, object } from '../objects.ts'

t.test('bounds follow the heap; past 384 MiB they are the same', async (t) => {
  t.equal(viewsBounds(384).records.maxObjects, recordsDefaults.maxObjects)
  t.strictSame(viewsBounds(1000), viewsBounds(384))
  const { records, forests, selections, limits } = viewsBounds(96)
  t.match(records, { maxObjects: 50_000, extras: { max: 16 * 1024 * 1024 } })
  t.match(forests, { maxNodes: 150_000, maxNodesPerUser: 75_000 })
  t.match(selections, { maxSelections: 250, maxSelectionsPerUser: 100, maxMembers: 2000 })
  t.match(limits, { maxRows: 37_500, maxViews: 500 })
})

t.test('in a small heap a kind goes, and a view is refused in words', async (t) => {
  const bounds = viewsBounds(1)
  const rules = new Rules([], [])
  const records = new Records({ clock: new ManualClock(), rules, interned: new Interned() }, bounds.records)
  for (let i = 0; i < 600; i++) records.put(kinds.configMap, object({ uid: `c${i}` }))
  t.ok(records.size <= bounds.records.maxObjects, `${records.size} objects`)
  t.match([...records.states.all()], [[{ key: 'ConfigMap' }, { why: /more than 520 objects/ }]])

  const stage = new ViewStage()
  t.teardown(() => stage.close())
  stage.options = bounds
  stage.api.rights.set('bob', [['/pods', '*']])
  for (let i = 0; i < 800; i++) stage.records.put(recordOf({ uid: `p${i}` }))
  const { client: first } = stage.open(user('bob'), { view: 'tree' })
  await stage.pass(100)
  t.ok(first.order())
  const { client: second } = stage.open(user('bob'), { view: 'list' })
  await stage.pass(100)
  t.match(second.error, { code: 'TOO_MANY_STREAMS', message: 'Too many objects in views of one user, allowed: 781' })
})
