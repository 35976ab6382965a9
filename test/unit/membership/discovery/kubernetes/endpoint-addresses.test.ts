import t from 'tap'
import {
  endpointsAddresses,
  sliceAddresses,
} from '../../../../../src/membership/discovery/kubernetes/endpoint-addresses.ts'

const otherPort = 7777
type Slice = Parameters<typeof sliceAddresses>[0]
type Endpoints = Parameters<typeof endpointsAddresses>[0]

t.test('slices', async (t) => {
  const endpoints = [{ addresses: ['10.0.0.1', '10.0.0.2'] }, { addresses: ['10.0.0.3'], conditions: { ready: false } }]
  const table: [what: string, slice: object, addresses: string[]][] = [
    [
      'the port named gossip',
      {
        addressType: 'IPv4',
        endpoints,
        ports: [
          { name: 'a', port: 1 },
          { name: 'gossip', port: 2 },
        ],
      },
      ['10.0.0.1:2', '10.0.0.2:2', '10.0.0.3:2'],
    ],
    [
      'another port',
      { addressType: 'IPv4', endpoints: endpoints.slice(1), ports: [{ name: 'a', port: 1 }] },
      ['10.0.0.3:7777'],
    ],
    [
      'a port without a number stands for all',
      { addressType: 'IPv4', endpoints: endpoints.slice(1), ports: [{ name: 'gossip' }] },
      ['10.0.0.3:7777'],
    ],
    ['IPv6', { addressType: 'IPv6', endpoints: [{ addresses: ['FD00:0::1'] }] }, ['[fd00::1]:7777']],
    ['names', { addressType: 'FQDN', endpoints: [{ addresses: ['kas.example.com'] }] }, []],
    ['absent lists', { addressType: 'IPv4', endpoints: null, ports: null }, []],
    ['an endpoint without addresses', { addressType: 'IPv4', endpoints: [{ addresses: null }] }, []],
  ]
  for (const [what, slice, addresses] of table) {
    t.strictSame(sliceAddresses(slice as unknown as Slice, otherPort), addresses, what)
  }
})

t.test('Endpoints', async (t) => {
  const subsets = [
    { addresses: [{ ip: '10.0.0.1' }], notReadyAddresses: [{ ip: '10.0.0.2' }], ports: [{ name: 'gossip', port: 9 }] },
    { notReadyAddresses: [{ ip: 'fd00::1' }] },
    { addresses: null, ports: null },
  ]
  const all = ['10.0.0.1:9', '10.0.0.2:9', '[fd00::1]:7777']
  t.strictSame(endpointsAddresses({ subsets } as unknown as Endpoints, otherPort), all)
  t.strictSame(endpointsAddresses({}, otherPort), [])
})
