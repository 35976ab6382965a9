import { dnsForms, isDnsTarget, isLabel, isMember, maxMembers, maxServices, memberForms } from './discovery.ts'

/** `cluster.discovery` as the environment sets it, as a whole. */
export interface DiscoveryFromEnvironment {
  readonly kubernetes?: { service: string | string[]; namespace?: string }
  readonly dns?: string
  readonly static?: readonly string[]
}

const serviceForms = `service or namespace/service, with commas between up to ${maxServices} services of one namespace`

/**
 * `KAS_CLUSTER_SERVICE`, `_DNS` and `_STATIC`; undefined if none is set.
 *
 * @param problems - gets what is wrong with them
 */
export function discoveryFromEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): DiscoveryFromEnvironment | undefined {
  const get = (name: string) => env[name]?.trim() || undefined
  const wrong = (name: string, found: string, allowed: string) =>
    problems.push(`KAS_CLUSTER_${name}: found ${JSON.stringify(found)}, allowed: ${allowed}`)
  const service = get('KAS_CLUSTER_SERVICE')
  const dns = get('KAS_CLUSTER_DNS')
  const list = get('KAS_CLUSTER_STATIC')
  if (service === undefined && dns === undefined && list === undefined) return undefined

  const kubernetes = service === undefined ? undefined : servicesOf(service, get('POD_NAMESPACE'))
  const members = list === undefined ? undefined : commaSeparated(list)
  if (service !== undefined && !kubernetes) wrong('SERVICE', service, serviceForms)
  if (dns !== undefined && !isDnsTarget(dns)) wrong('DNS', dns, dnsForms)
  for (const member of members ?? []) if (!isMember(member)) wrong('STATIC', member, memberForms)
  if (members && members.length > maxMembers) {
    wrong('STATIC', `${members.length} members`, `at most ${maxMembers}`)
  }
  return { ...(kubernetes ? { kubernetes } : {}), ...(dns ? { dns } : {}), ...(members ? { static: members } : {}) }
}

const commaSeparated = (text: string): string[] =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')

/** `service`, `namespace/service`, `namespace/service,service`; undefined if it is none of these. */
function servicesOf(text: string, ownNamespace: string | undefined) {
  const [first = '', second, ...more] = text.split('/')
  const services = commaSeparated(second ?? first)
  const namespace = second === undefined ? ownNamespace : first
  if (more.length > 0 || services.length === 0 || services.length > maxServices) return undefined
  if (!services.every(isLabel) || (namespace !== undefined && !isLabel(namespace))) return undefined
  const [only, ...others] = services
  return { service: others.length === 0 ? (only as string) : services, ...(namespace ? { namespace } : {}) }
}
