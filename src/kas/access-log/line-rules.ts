import type { RequestInfo } from '../../kubernetes/request/request-info.ts'
import type { LineClass, LineRule } from '../config/access-log.ts'
import { isNamedUser } from './named-user.ts'

/** Properties of a call that rules compare. */
export interface RuledCall
  extends Partial<Pick<RequestInfo, 'verb' | 'group' | 'resource' | 'subresource' | 'namespace'>> {
  readonly class: LineClass
  readonly agentId?: bigint | undefined
  readonly user?: { readonly name: string; readonly id: bigint } | undefined
}

type Condition = (call: RuledCall) => boolean

/** Returns a function that is true if the first matching rule asks for a line; without a match it is false. */
export function lineRules(rules: readonly LineRule[]): (call: RuledCall) => boolean {
  const compiled = rules.map((rule) => ({ isLogged: rule.level === 'metadata', conditions: conditionsOf(rule) }))
  return (call) => {
    const first = compiled.find(({ conditions }) => conditions.every((holds) => holds(call)))
    return first?.isLogged ?? false
  }
}

function conditionsOf({ classes, verbs, resources, namespaces, agents, users }: LineRule): Condition[] {
  return [
    ...oneOf(classes, (call) => call.class),
    ...oneOf(verbs, ({ verb }) => verb),
    ...oneOf(namespaces, ({ namespace }) => namespace),
    ...oneOf(agents, ({ agentId }) => agentId?.toString()),
    ...(users ? [anyUser(users)] : []),
    ...(resources ? [anyResource(resources.map(patternOf))] : []),
  ]
}

function oneOf(list: readonly string[] | undefined, read: (call: RuledCall) => string | undefined): Condition[] {
  if (!list) return []
  const known = new Set(list)
  return [(call) => known.has(read(call) ?? '')]
}

function anyUser(users: readonly string[]): Condition {
  const isNamed = isNamedUser(users)
  return ({ user }) => user !== undefined && isNamed(user)
}

interface Pattern {
  readonly resource: string
  readonly group: string
  /** undefined: with any subresource, or without one */
  readonly subresource: string | undefined
}

/** Parses `secrets`, `deployments.apps`, `pods/exec`, `*.cert-manager.io`, `*`: of all groups. */
function patternOf(text: string): Pattern {
  const [whole = '', subresource] = text.split('/', 2)
  if (whole === '*') return { resource: '*', group: '*', subresource }
  const dot = whole.indexOf('.')
  if (dot < 0) return { resource: whole, group: '', subresource }
  return { resource: whole.slice(0, dot), group: whole.slice(dot + 1), subresource }
}

function anyResource(patterns: readonly Pattern[]): Condition {
  const is = (wanted: string, found: string | undefined) => wanted === '*' || wanted === found
  return ({ resource, group, subresource }) =>
    resource !== undefined &&
    patterns.some(
      (each) =>
        is(each.resource, resource) &&
        is(each.group, group) &&
        (each.subresource === undefined || is(each.subresource, subresource)),
    )
}
