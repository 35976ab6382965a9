import type { NetworkInterfaceInfo } from 'node:os'
import t from 'tap'
import { ownPrivateApi, replicaPlace } from '../../../../src/kas/config/own-private-api.ts'
import type { ConfigWarning } from '../../../../src/lib/config.ts'

/** Address for other replicas, from the variables `OWN_PRIVATE_API_*`. */

const interfaceWith = (...addresses: string[]) => addresses.map((address) => ({ address }) as NetworkInterfaceInfo)
const interfaces = () => ({
  lo: interfaceWith('127.0.0.1', '::1'),
  eth0: interfaceWith('192.168.7.2', '10.0.3.9', 'fd00::9'),
  gone: undefined,
})

function read(variables: Record<string, string>) {
  const told = { problems: [] as string[], warnings: [] as ConfigWarning[] }
  const own = ownPrivateApi((name) => variables[name], told)
  return { own, ...told }
}

function place(variables: Record<string, string>, host?: string) {
  const texts: string[] = []
  const listen = { ...(host === undefined ? {} : { host }), port: 8155 }
  const found = replicaPlace(read(variables).own, listen, { interfaces, warn: (text) => texts.push(text) })
  return { place: found, texts }
}

t.test('without it, the address that is listened on, unless that is any', async (t) => {
  t.strictSame(place({}, '10.0.3.9').place, { host: '10.0.3.9' })
  for (const any of [undefined, '0.0.0.0', '::']) t.strictSame(place({}, any), { place: {}, texts: [] }, String(any))
  t.strictSame(place({}, 'localhost'), { place: { host: 'localhost' }, texts: [] }, 'no fault as long as it is alone')
})

// wire: environment.OWN_PRIVATE_API_URL, environment.OWN_PRIVATE_API_PORT
t.test('the URL is what others get', async (t) => {
  const of = (url: string, more = {}) => place({ OWN_PRIVATE_API_URL: url, ...more }, '10.9.9.9').place
  t.strictSame(of('grpc://10.0.3.9:9155'), { host: '10.0.3.9', port: 9155 })
  t.strictSame(of('grpcs://[fd00::9]:9155/'), { host: 'fd00::9', port: 9155 })
  t.strictSame(of('grpc://kas-0.kas.svc'), { host: 'kas-0.kas.svc' }, 'the port that is listened on')
  t.strictSame(of('grpc://[fd00::9]', { OWN_PRIVATE_API_PORT: '9' }), { host: 'fd00::9', port: 9 })
  t.strictSame(of('grpc://a:1', { OWN_PRIVATE_API_PORT: '9' }), { host: 'a', port: 1 })
})

// wire: environment.OWN_PRIVATE_API_CIDR, environment.OWN_PRIVATE_API_PORT
t.test('networks choose an address of this machine, the first network first', async (t) => {
  const of = (networks: string, more = {}) => place({ OWN_PRIVATE_API_CIDR: networks, ...more }).place
  t.strictSame(of('10.0.0.0/8'), { host: '10.0.3.9' })
  t.strictSame(of('172.16.0.0/12, fd00::/8,10.0.0.0/8'), { host: 'fd00::9' })
  t.strictSame(of('0.0.0.0/0', { OWN_PRIVATE_API_PORT: '9155' }), { host: '127.0.0.1', port: 9155 })
  const none = place({ OWN_PRIVATE_API_CIDR: '172.16.0.0/12' }, '10.9.9.9')
  t.strictSame(none.place, { host: '10.9.9.9' }, 'no abort')
  t.match(none.texts, ['OWN_PRIVATE_API_CIDR has no effect: no address of this machine is in 172.16.0.0/12'])
})

t.test('a private API on loopback that others are to call elsewhere is warned of', async (t) => {
  const url = { OWN_PRIVATE_API_URL: 'grpc://10.0.3.9:8155' }
  t.match(place(url, 'localhost').texts, [/are to call 10\.0\.3\.9, but private_api\.listen\.address is on loopback/])
  t.strictSame(place(url).texts, [])
  t.strictSame(place({ OWN_PRIVATE_API_URL: 'grpc://127.0.0.1' }, 'localhost').texts, [])
})

// wire: environment.OWN_PRIVATE_API_CIDR, environment.OWN_PRIVATE_API_SCHEME, environment.OWN_PRIVATE_API_HOST
t.test('what has no effect is named with the reason, and URL beside CIDR does not stop the start', async (t) => {
  const both = read({ OWN_PRIVATE_API_URL: 'grpc://a:1', OWN_PRIVATE_API_CIDR: '10.0.0.0/8' })
  t.strictSame(both.own, { host: 'a', port: 1 })
  t.match(both.warnings, [{ kind: 'unused', key: 'OWN_PRIVATE_API_CIDR', hint: /OWN_PRIVATE_API_URL is set too/ }])
  const chart = read({ OWN_PRIVATE_API_HOST: 'kas.gitlab.svc', OWN_PRIVATE_API_SCHEME: 'grpcs' })
  t.strictSame(chart.own, {})
  t.strictSame(
    chart.warnings.map(({ key }) => key),
    ['OWN_PRIVATE_API_SCHEME', 'OWN_PRIVATE_API_HOST'],
  )
})

t.test('wrong values stop the start', async (t) => {
  const wrong: Record<string, string[]> = {
    URL: [
      '10.0.0.1:8155',
      'http://a:1',
      'grpc://',
      'grpc://fd00::1:8155',
      'grpc://a:0',
      'grpc://u@a:1',
      'unix:/p.sock',
    ],
    CIDR: ['10.0.0.0', '10.0.0.0/33', 'fd00::/129', 'kas/8', '10.0.0.0/8/8', '10.0.0.0/8,x'],
    PORT: ['0', '65536', 'x', '-1', '8155x'],
    SCHEME: ['http'],
  }
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const { problems } = read({ [`OWN_PRIVATE_API_${name}`]: value })
      t.match(problems, [new RegExp(`^OWN_PRIVATE_API_${name}: found ".*", allowed: `)], value)
      t.equal(problems.length, 1)
    }
  }
})
