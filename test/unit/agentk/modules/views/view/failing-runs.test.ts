import t from 'tap'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import type { Row } from '../../../../../../src/proto/views-json.ts'
import { ClusterStage } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'

/** Each run of a CronJob is another Job, and each fails: the failure lasts since the first of them. */

const now = Date.parse('2026-11-20T10:00:00Z')
const minute = 60_000
const stepMs = 500
const iso = (minutes: number) => new Date(now + minutes * minute).toISOString()

const cronJob = (lastScheduled: number): KubernetesObject => ({
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  metadata: { name: 'report', namespace: 'shop', uid: 'cron', creationTimestamp: iso(-60) },
  spec: { schedule: '* * * * *' },
  status: { lastScheduleTime: iso(lastScheduled) },
})

function run(minutes: number, type: string): KubernetesObject {
  const name = `report-${minutes}`
  const owner = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'report', uid: 'cron', controller: true }
  const ended = { type, status: 'True', reason: type === 'Failed' ? 'DeadlineExceeded' : '', message: 'too long' }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: 'shop', uid: name, creationTimestamp: iso(minutes), ownerReferences: [owner] },
    spec: {},
    status: { conditions: [{ ...ended, lastTransitionTime: iso(minutes) }] },
  }
}

t.test('since the first run that failed in a row', async (t) => {
  const stage = new ClusterStage(now)
  t.teardown(() => stage.close())
  stage.kind('batch/Job', true)
  stage.put(cronJob(0))
  stage.put(run(0, 'Failed'))
  stage.listed()
  stage.mayNotList('ann', [])
  const { client } = stage.open(user('ann'), { view: 'list', filter: { kinds: ['batch/CronJob'] }, limit: 500 })
  const pass = async (minutes: number) => {
    for (let ms = 0; ms < minutes * minute; ms += stepMs) await stage.pass(stepMs)
  }
  const shown = async (): Promise<Row> => {
    for (let i = 0; i < 15; i++) await stage.pass(100)
    return [...client.rows.values()][0] as Row
  }
  t.match((await shown()).z, { name: 'report-0', since: now })
  for (const minutes of [1, 2]) {
    await pass(1)
    stage.put(cronJob(minutes))
    stage.put(run(minutes, 'Failed'))
    stage.deleted(run(minutes - 1, 'Failed'))
    t.match((await shown()).z, { name: `report-${minutes}`, since: now }, 'the last one, since the first')
  }
  await pass(1)
  stage.put(run(3, 'Complete'))
  await pass(2)
  t.equal((await shown()).z, undefined)
  stage.put(run(5, 'Failed'))
  t.match((await shown()).z, { name: 'report-5', since: now + 5 * minute }, 'it had succeeded meanwhile')
})
