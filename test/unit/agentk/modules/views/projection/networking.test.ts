import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const routes = (name: string, more: object = {}) => ({
  relation: 'routes',
  kind: 'Service',
  namespace: 'shop',
  name,
  ...more,
})
const metadata = { name: 'web', namespace: 'shop' }

t.test('a Service selects Pods by labels', async (t) => {
  const status = { loadBalancer: { ingress: [{ ip: '10.1.2.3' }, { ip: '10.1.2.4' }] } }
  const spec = { type: 'LoadBalancer', selector: { app: 'web', tier: 'front' } }
  t.match(projectionOf('Service', { metadata, spec, status }), {
    facts: ['LoadBalancer', '10.1.2.3'],
    selector: {
      labels: [
        ['app', 'web'],
        ['tier', 'front'],
      ],
      expressions: [],
    },
  })
  const selector = (spec: unknown) => projectionOf('Service', { metadata, spec }).selector
  t.equal(selector({ selector: {} }), undefined, 'one without a selector has endpoints of its own')
  t.equal(selector({ type: 'ExternalName', externalName: 'x', selector: { app: 'web' } }), undefined)
  for (const odd of [null, 'app', ['app'], { app: 1 }, { app: 'x'.repeat(300) }])
    t.equal(selector({ selector: odd }), undefined)
  const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`l${i}`, 'x']))
  t.equal(selector({ selector: many }), undefined, 'cut, it would select more')
})

t.test("an EndpointSlice is its Service's", async (t) => {
  const labels = { 'kubernetes.io/service-name': 'web' }
  const endpoints = [{ conditions: { ready: true } }, { conditions: { ready: false } }, {}]
  t.match(projectionOf('discovery.k8s.io/EndpointSlice', { metadata: { ...metadata, labels }, endpoints }), {
    facts: ['2/3 ready'],
    customParent: { kind: 'Service', name: 'web' },
  })
  t.equal(projectionOf('discovery.k8s.io/EndpointSlice', { metadata, endpoints: 'x' }).customParent, undefined)
})

t.test('an Ingress names its Services, each once', async (t) => {
  const path = (name: unknown) => ({ backend: { service: { name, port: { number: 80 } } } })
  const spec = {
    defaultBackend: { service: { name: 'fallback' } },
    rules: [
      { host: 'shop.example.com', http: { paths: [path('web'), path('api')] } },
      { host: 'www.example.com', http: { paths: [path('web'), path(''), path(7), null] } },
      { host: 'shop.example.com' },
    ],
  }
  const found = projectionOf('networking.k8s.io/Ingress', { metadata, spec })
  t.same(found.facts, ['shop.example.com', 'www.example.com'])
  t.same(found.references, [routes('fallback'), routes('web'), routes('api')])
  t.same(projectionOf('networking.k8s.io/Ingress', { spec: { rules: 'x' } }).references, [])
})

t.test('an HTTPRoute names Services, also of other namespaces, and other kinds', async (t) => {
  const spec = {
    hostnames: ['shop.example.com', 7],
    rules: [
      {
        backendRefs: [
          { name: 'web', port: 80 },
          { name: 'api', namespace: 'back' },
        ],
      },
      { backendRefs: [{ group: 'multicluster.x-k8s.io', kind: 'ServiceImport', name: 'far' }] },
      { backendRefs: { name: 'none' } },
    ],
  }
  const { facts, references } = projectionOf('gateway.networking.k8s.io/HTTPRoute', { metadata, spec })
  t.same(facts, ['shop.example.com'])
  t.same(references, [
    routes('web'),
    routes('api', { namespace: 'back' }),
    routes('far', { kind: 'multicluster.x-k8s.io/ServiceImport' }),
  ])
})
