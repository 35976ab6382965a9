import t from 'tap'
import { named } from '../../../../dev/api-double/seed.ts'
import { shapeOf, tableOf } from '../../../../dev/api-double/tables.ts'

t.test('the first accepted form that is served', async (t) => {
  const kubectl =
    'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json'
  t.equal(shapeOf(kubectl), 'table')
  t.equal(shapeOf('application/vnd.kubernetes.protobuf, application/json'), 'object')
  t.equal(shapeOf('application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'), 'metadata')
  for (const accept of [undefined, '', '*/*', 'text/html', 'application/json;as=Poem'])
    t.equal(shapeOf(accept), 'object', String(accept))
})

t.test('cells, ages and the object behind a row', async (t) => {
  const created = Date.UTC(2026, 0, 1)
  const creationTimestamp = new Date(created).toISOString()
  const map = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', creationTimestamp },
    data: { x: '1', y: '2' },
  }
  const table = (ageSeconds: number, includeObject = 'Metadata', columns = true) =>
    tableOf(named('configmaps'), [map], { includeObject, now: created + ageSeconds * 1000, version: '7', columns })
  t.match(table(90), {
    kind: 'Table',
    metadata: { resourceVersion: '7' },
    columnDefinitions: [{ name: 'Name', format: 'name' }, { name: 'Data', type: 'integer' }, { name: 'Age' }],
    rows: [{ cells: ['a', 2, '90s'], object: { kind: 'PartialObjectMetadata', metadata: { name: 'a' } } }],
  })
  t.same(table(90, 'Object').rows[0]?.object, map)
  t.equal(table(90, 'None').rows[0]?.object, undefined)
  t.equal(table(90, 'Metadata', false).columnDefinitions, null)
  const ages = { '120': '2m', '125': '2m5s', '660': '11m', '10800': '3h', '172800': '2d' }
  for (const [seconds, age] of Object.entries(ages)) t.equal(table(Number(seconds)).rows[0]?.cells[2], age)
})
