import t from 'tap'
import { TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { Forests } from '../../../../../../src/agentk/modules/views/tree/forests.ts'
import { readQuery } from '../../../../../../src/agentk/modules/views/tree/query.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'
import { seesAll } from '../../../../../support/views/sees-all.ts'

const objects = 10
const options = { maxNodes: 8 * objects, maxNodesPerUser: 3 * objects }
/** Returns a query for all objects. Each query has a forest of its own. */
const query = (other: number) =>
  readQuery(Buffer.from(JSON.stringify({ view: 'list', filter: { kinds: ['Pod', `Other${other}`] } })))

function start() {
  const records = new RecordsDouble()
  for (let i = 0; i < objects; i++) records.put(recordOf({ uid: `u${i}` }))
  let last = 0
  const clock = new ManualClock()
  const forests = new Forests({ records, clock, turns: new TimeSlices(clock), side: 'argo' }, options)
  return { forests, take: (user: string) => forests.take(seesAll, query(last++), user) }
}

t.test('one user has so much of the room; others find some', async (t) => {
  const { forests, take } = start()
  const taken = Array.from({ length: 4 }, () => take('ann'))
  t.throws(() => take('ann'), { code: 'TOO_MANY_STREAMS', message: /of one user/ })
  take('bob')
  for (const forest of taken.slice(0, 2)) forests.release(forest, 'ann')
  take('ann')
})

t.test('all together have so much; what is shared counts once', async (t) => {
  const { forests, take } = start()
  for (let i = 0; i < 9; i++) take(`user-${i}`)
  t.throws(() => take('bob'), { code: 'TOO_MANY_STREAMS' })
  const shared = forests.take(seesAll, query(0), 'bob')
  forests.release(shared, 'bob')
  t.equal(forests.take(seesAll, query(0), 'carl'), shared, 'the first has it still')
})
