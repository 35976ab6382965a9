import t from 'tap'
import { lineRules, type RuledCall } from '../../../../src/kas/access-log/line-rules.ts'
import { defaultLineRules, type LineRule, lineClasses } from '../../../../src/kas/config/access-log.ts'

const call = (more: Partial<RuledCall> = {}): RuledCall => ({
  class: 'read',
  verb: 'list',
  group: '',
  resource: 'pods',
  subresource: '',
  namespace: 'web',
  agentId: 42n,
  user: { name: 'ada', id: 5n },
  ...more,
})

t.test('by default all but reads', async (t) => {
  const isLogged = lineRules(defaultLineRules)
  const logged = lineClasses.filter((name) => isLogged(call({ class: name })))
  t.strictSame(
    logged,
    lineClasses.filter((name) => name !== 'read'),
  )
})

t.test('the first rule that fits decides, and without one there is no line', async (t) => {
  const isLogged = lineRules([
    { level: 'none', users: ['ada'], verbs: ['list'] },
    { level: 'metadata', namespaces: ['web'] },
  ])
  t.equal(isLogged(call()), false)
  t.equal(isLogged(call({ verb: 'watch' })), true)
  t.equal(isLogged(call({ user: { name: 'bob', id: 6n } })), true)
  t.equal(isLogged(call({ user: undefined })), true)
  t.equal(isLogged(call({ user: undefined, namespace: 'db' })), false)
  t.equal(lineRules([])(call({ class: 'write' })), false)
  t.equal(lineRules([{ level: 'metadata' }])(call()), true)
})

t.test('each condition', async (t) => {
  const fits = (rule: Omit<LineRule, 'level'>, more: Partial<RuledCall> = {}) =>
    lineRules([{ level: 'metadata', ...rule }])(call(more))
  t.equal(fits({ agents: ['42'] }), true)
  t.equal(fits({ agents: ['4'] }), false)
  t.equal(fits({ agents: ['42'] }, { agentId: undefined }), false)
  t.equal(fits({ users: ['5'] }), true)
  t.equal(fits({ users: ['5'] }, { user: { name: '5', id: 6n } }), false, 'who calls himself so has no line less')
  t.equal(fits({ users: ['@5'] }, { user: { name: '5', id: 6n } }), true)
  t.equal(fits({ classes: ['write', 'read'] }), true)
  for (const [pattern, resource, expected] of [
    ['pods', {}, true],
    ['pods', { subresource: 'exec' }, true],
    ['pods/exec', { subresource: 'exec' }, true],
    ['pods/exec', {}, false],
    ['*/proxy', { resource: 'services', subresource: 'proxy' }, true],
    ['*/proxy', {}, false],
    ['*', { group: 'apps', resource: 'deployments' }, true],
    ['deployments', { group: 'apps', resource: 'deployments' }, false],
    ['deployments.apps', { group: 'apps', resource: 'deployments' }, true],
    ['*.cert-manager.io', { group: 'cert-manager.io', resource: 'issuers' }, true],
    ['*', { resource: undefined }, false],
  ] as const)
    t.equal(fits({ resources: [pattern] }, resource), expected, `${pattern} ${JSON.stringify(resource)}`)
})
