import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import { TakeOver } from '../../../../../../src/agentk/modules/gitops/apply/take-over.ts'

t.test('an object that somebody has nested too deeply frees no field, and ends nothing', async (t) => {
  const deep = Array.from({ length: 9_990 }).reduce<object>((inner) => ({ x: inner }), {})
  const managedFields = [{ manager: 'm', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:a': {} } } }]
  const lane: ApiLane = {
    json: async () => ({ status: 200, body: { metadata: { managedFields }, spec: { b: deep } } }),
  }
  const takeOver = new TakeOver(lane, { id: '42-7', manager: 'm', adopt: [] })
  const { signal } = new AbortController()
  t.equal(await takeOver.inTheWay('/a', { places: ['spec.c'], conflicts: 'force' }, signal), undefined)
})
