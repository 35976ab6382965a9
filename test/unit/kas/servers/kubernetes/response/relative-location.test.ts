import t from 'tap'
import { relativeLocation } from '../../../../../../src/kas/servers/kubernetes/response/relative-location.ts'
import { parseTarget } from '../../../../../../src/kubernetes/request/target.ts'

/** A browser resolves the answered Location. Each case checks the URL that it leads to. */

const web = '/api/v1/namespaces/t/services/web:http/proxy'
const inner = 'https://10.211.0.1:6443'

/** Prefix of the cluster's paths at kas, and the prefix that a front or `kubectl proxy` adds before that. */
const ways = [
  ['/', ''],
  ['/k8s-proxy/', ''],
  ['/-/kubernetes-agent/k8s-proxy/', ''],
  ['/', '/-/kubernetes-agent/k8s-proxy'],
  ['/k8s-proxy/', '/a/b'],
] as const

const cases: Readonly<Record<string, readonly [asked: string, location: string, leadsTo: string]>> = {
  'a slash is missing': [web, `${web}/`, `${web}/`],
  'a slash is missing, with a query': [`${web}?a=1`, `${web}/?a=1`, `${web}/?a=1`],
  'another path': [`${web}/redirect`, `${web}/target`, `${web}/target`],
  'a path with a query and a fragment': [`${web}/a/b`, `${web}/c?x=/y:z#/d`, `${web}/c?x=/y:z#/d`],
  'a deeper one': [`${web}/a`, `${web}/a/b/c`, `${web}/a/b/c`],
  'a higher one': [`${web}/a/b/c/d`, `${web}/e`, `${web}/e`],
  'the same': [`${web}/a`, `${web}/a`, `${web}/a`],
  'its folder': [`${web}/a/b`, `${web}/a/`, `${web}/a/`],
  'another service': [`${web}/a`, '/api/v1/namespaces/u/services/x/proxy/', '/api/v1/namespaces/u/services/x/proxy/'],
  'a colon in what comes next': ['/api/v1/namespaces/t/services/', web, web],
  'slashes that are doubled': [`${web}//a//b`, `${web}//c`, `${web}//c`],
  'a slash at the start of the rest': [`${web}/a`, `${web}//c`, `${web}//c`],
  'letters that are encoded': [`${web}/a%20b/c`, `${web}/a%20b/d%2Fe`, `${web}/a%20b/d%2Fe`],
  'the same letters, encoded otherwise': [
    '/api/v1/services/web%3Ahttp/proxy/a',
    '/api/v1/services/web:http/proxy/b',
    '/api/v1/services/web:http/proxy/b',
  ],
  'a slash that is encoded': [`${web}/a%2Fb/c`, `${web}/x`, `${web}/x`],
  'the root': [`${web}/a`, '/', '/'],
  'from the root': ['/', '/api', '/api'],
  'dots, which lead no higher than the root': [`${web}/a`, `/api/../../../../${'../'.repeat(20)}x`, '/x'],
  'dots inside': [`${web}/a`, `${web}/b/../c`, `${web}/c`],
  'the API server’s own address': [`${web}/a`, `${inner}${web}/target?x=1`, `${web}/target?x=1`],
  'the same without a path behind it': [web, `${inner}${web}`, web],
  'the same of a pod': [
    '/api/v1/namespaces/t/pods/a:8080/proxy/x',
    `http://a.b/api/v1/namespaces/t/pods/a:8080/proxy/y`,
    '/api/v1/namespaces/t/pods/a:8080/proxy/y',
  ],
  'the same without a scheme': [`${web}/a`, `//10.211.0.1:6443${web}/target`, `${web}/target`],
  'a name with a line of query': [`${web}/a?b=c/d/e`, `${web}/f`, `${web}/f`],
}

for (const [prefix, front] of ways) {
  t.test(`behind ${front}${prefix}`, async (t) => {
    for (const [name, [asked, location, leadsTo]] of Object.entries(cases)) {
      const target = prefix.slice(0, -1) + asked
      const made = relativeLocation(location, parseTarget(target, prefix))
      t.notMatch(made, /^\/|^[a-z]+:/i, name)
      const led = new URL(made, `https://kas.example.com${front}${target}`)
      t.equal(led.href.slice(led.origin.length), front + prefix.slice(0, -1) + leadsTo, `${name}: ${made}`)
    }
  })
}

t.test('the root of the prefix, asked for without its slash', async (t) => {
  for (const prefix of ['/k8s-proxy/', '/-/kubernetes-agent/k8s-proxy/']) {
    const target = prefix.slice(0, -1)
    const made = relativeLocation('/api', parseTarget(target, prefix))
    t.equal(new URL(made, `https://kas${target}`).pathname, `${prefix}api`)
  }
})

t.test('what leads elsewhere stays as it is', async (t) => {
  const asked = parseTarget(`${web}/a`, '/')
  for (const location of [
    'target',
    '../target',
    '?a=1',
    '#a',
    '',
    'https://example.com/',
    'https://example.com/login?next=/api',
    `https://example.com${web}x/target`,
    '//example.com/x',
    'mailto:a@b.c',
    `javascript:${web}`,
  ])
    t.equal(relativeLocation(location, asked), location)
  const api = parseTarget('/api/v1/pods', '/')
  t.equal(relativeLocation(`${inner}/api/v1/pods`, api), `${inner}/api/v1/pods`, 'it is of no proxy')
})
