import t from 'tap'
import {
  type FieldPlace,
  indexOfItem,
  parseStep,
  placesNamed,
  removeFields,
  valueBelow,
} from '../../../../../../src/agentk/modules/gitops/live/field-places.ts'

const field = (name: string) => ({ kind: 'field', name }) as const
const key = (fields: Record<string, string | number>) => ({ kind: 'key', key: fields }) as const
const value = (text: string) => ({ kind: 'value', value: text }) as const
const index = (at: number) => ({ kind: 'index', index: at }) as const

const web = {
  apiVersion: 'apps/v1',
  metadata: {
    annotations: { 'tool.example/x': '1', 'tool.example/x.y': '2', tool: '3' },
    finalizers: ['a', 'b'],
  },
  spec: {
    replicas: 2,
    template: {
      spec: {
        containers: [
          { name: 'app', image: 'a', resources: { limits: { cpu: '1' } } },
          { name: 'proxy', image: 'b', ports: [{ containerPort: 53 }, { containerPort: 53, protocol: 'UDP' }] },
        ],
      },
    },
  },
}
const pod = [field('spec'), field('template'), field('spec')]

t.test('names of FieldsV1', async (t) => {
  t.strictSame(parseStep('f:tool.example/x'), field('tool.example/x'))
  t.strictSame(parseStep('k:{"containerPort":53,"protocol":"UDP"}'), key({ containerPort: 53, protocol: 'UDP' }))
  t.strictSame(parseStep('v:"a"'), value('a'))
  t.strictSame(parseStep('i:2'), index(2))
  for (const name of ['.', '', 'x:a', 'k:', 'k:{', 'k:[]', 'k:null', 'k:7', 'v:', 'v:a', 'i:', 'i:x', 'i:1.5'])
    t.equal(parseStep(name), undefined, name)
})

t.test('items of lists: by key, also without the defaults of the API server, by value, by index', async (t) => {
  const [, proxy] = web.spec.template.spec.containers
  const ports = proxy?.ports ?? []
  t.equal(indexOfItem(ports, key({ containerPort: 53, protocol: 'UDP' })), 1)
  t.equal(indexOfItem(ports, key({ containerPort: 53, protocol: 'TCP' })), 0, 'protocol is a default')
  t.equal(indexOfItem(ports, key({ containerPort: 80, protocol: 'TCP' })), -1)
  t.equal(indexOfItem([{ protocol: 'TCP' }, null, 'x'], key({ port: 1, name: 'a' })), -1, 'no field of the key')
  t.equal(indexOfItem(['a', 'b', { c: [1] }], value('b')), 1)
  t.equal(indexOfItem(['a'], index(0)), 0)
  t.equal(indexOfItem(['a'], index(1)), -1)
  t.equal(indexOfItem(['a'], field('0')), -1)
  t.equal(valueBelow(ports, key({ containerPort: 53, protocol: 'UDP' })), ports[1])
  t.equal(valueBelow(ports, field('0')), undefined)
  t.equal(valueBelow('text', field('length')), undefined)
  t.equal(valueBelow({ a: null }, key({ name: 'a' })), undefined)
})

t.test('places that a text of the API server means', async (t) => {
  const places: Readonly<Record<string, readonly FieldPlace[]>> = {
    '.spec.replicas': [[field('spec'), field('replicas')]],
    '.spec.template.spec.containers[name="app"].resources.limits.cpu': [
      [...pod, field('containers'), key({ name: 'app' }), field('resources'), field('limits'), field('cpu')],
    ],
    '.spec.template.spec.containers[name="proxy"].ports[containerPort=53,protocol="TCP"].containerPort': [
      [
        ...pod,
        field('containers'),
        key({ name: 'proxy' }),
        field('ports'),
        key({ containerPort: 53, protocol: 'TCP' }),
        field('containerPort'),
      ],
    ],
    '.metadata.annotations.tool.example/x': [[field('metadata'), field('annotations'), field('tool.example/x')]],
    '.metadata.annotations.tool.example/x.y': [[field('metadata'), field('annotations'), field('tool.example/x.y')]],
    '.metadata.finalizers[="b"]': [[field('metadata'), field('finalizers'), value('b')]],
    '.spec.template.spec.containers': [[...pod, field('containers')]],
    '.spec.paused': [],
    '.spec.replicas.a': [],
    '.spec.template.spec.containers.app': [],
    '.spec.template.spec.containers[name="other"].image': [],
    '.spec.template.spec.containers[*].image': [],
    '.metadata.annotations.tool.example': [],
    'spec.replicas': [],
    '.spec[name="app"]': [],
  }
  for (const [text, found] of Object.entries(places)) t.strictSame(placesNamed(web, text), found, text)
})

t.test('a text that may mean two fields has two places', async (t) => {
  const object = { a: { b: 1 }, 'a.b': 2 }
  t.strictSame(placesNamed(object, '.a.b'), [[field('a'), field('b')], [field('a.b')]])
})

t.test('an object without some fields is another object', async (t) => {
  const all = (...texts: string[]) => texts.flatMap((text) => placesNamed(web, text))
  const before = structuredClone(web)
  const container = '.spec.template.spec.containers'
  const rest = removeFields(web, [
    ...all('.spec.replicas', `${container}[name="app"].resources.limits.cpu`, `${container}[name="proxy"].image`),
    ...all('.metadata.annotations.tool.example/x', '.metadata.finalizers[="a"]'),
  ]) as unknown as typeof web
  t.strictSame(rest.spec.template.spec.containers, [
    { name: 'app', image: 'a', resources: { limits: {} } },
    { name: 'proxy', ports: [{ containerPort: 53 }, { containerPort: 53, protocol: 'UDP' }] },
  ])
  t.strictSame(rest.metadata, { annotations: { 'tool.example/x.y': '2', tool: '3' }, finalizers: ['b'] })
  t.notOk('replicas' in rest.spec)
  t.strictSame(web, before)
  const item = [...pod, field('containers'), key({ name: 'app' })]
  t.match(removeFields(web, [item]), { spec: { template: { spec: { containers: [{ name: 'proxy' }] } } } })
})

t.test('a place that the object does not have changes nothing', async (t) => {
  const places: FieldPlace[] = [
    [],
    [field('status'), field('replicas')],
    [field('apiVersion'), field('x')],
    [field('spec'), key({ name: 'a' })],
    [...pod, field('containers'), field('0')],
    [...pod, field('containers'), key({ name: 'other' }), field('image')],
    [field('__proto__'), field('x')],
  ]
  t.strictSame(removeFields(web, places), web)
})
