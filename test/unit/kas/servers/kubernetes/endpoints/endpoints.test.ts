import t from 'tap'
import type { Endpoint } from '../../../../../../src/kas/servers/kubernetes/endpoints/endpoint.ts'
import { Endpoints } from '../../../../../../src/kas/servers/kubernetes/endpoints/endpoints.ts'

const unreached = () => Promise.reject(new Error('nobody is let in'))
const ways: Record<'caller' | 'user', Endpoint['admit']> = { caller: () => unreached(), user: () => unreached() }
const make = (path: string, admit: keyof typeof ways, rest: Partial<Endpoint> = {}): Endpoint => ({
  path,
  methods: ['GET'],
  admit: ways[admit],
  serve: unreached,
  ...rest,
})
const cluster = make('/', 'caller', { methods: undefined, readsBodies: true })
const token = make('/', 'caller')
const agents = make('/agents', 'user')
const hooks = make('/hooks/git/', 'user', { methods: ['POST'] })
const views = make('/views', 'caller', { methods: ['GET', 'POST'] })
const check = make('/front-check', 'user', { readsBodies: true })
const endpoints = new Endpoints({ own: [agents, hooks, check, views, make('/views', 'user')], token, cluster })

const find = (method: string, path: string, { wantsToken = false, contentLength = 0 } = {}) =>
  endpoints.find(method, { path, wantsToken }, { contentLength })

t.test('the endpoint of a path, of what is below it, else the cluster', async (t) => {
  t.equal(find('GET', '/agents'), agents)
  t.equal(find('POST', '/hooks/git/12'), hooks)
  t.equal(find('POST', '/hooks/git/'), hooks)
  t.equal(find('GET', '/views'), views, 'the first one')
  for (const path of ['/', '/agents/', '/agents/1', '/hooks/git', '/view', '/viewsx', '/api/v1/pods'])
    t.equal(find('PROPFIND', path), cluster, path)
})

t.test('a token is given where callers are let in, and nowhere else', async (t) => {
  t.equal(find('GET', '/api/v1/pods', { wantsToken: true }), token)
  t.equal(find('GET', '/views', { wantsToken: true }), token)
  t.equal(find('GET', '/agents', { wantsToken: true }), agents)
  t.throws(() => find('POST', '/views', { wantsToken: true }), { code: 'METHOD_NOT_ALLOWED', spec: { allowed: 'GET' } })
})

t.test('other methods, and bodies that nobody reads', async (t) => {
  t.throws(() => find('PUT', '/views'), { code: 'METHOD_NOT_ALLOWED', spec: { method: 'PUT', allowed: 'GET, POST' } })
  t.throws(() => find('GET', '/views', { contentLength: -1 }), {
    code: 'BAD_REQUEST',
    message: 'Bad request: a GET cannot have a body here. Send it without Content-Length and Transfer-Encoding',
  })
  t.equal(find('POST', '/views', { contentLength: 2 }), views)
  t.equal(find('GET', '/front-check', { contentLength: 2 }), check)
  t.equal(find('GET', '/api/v1/pods', { contentLength: 2 }), cluster)
})
