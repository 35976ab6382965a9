import * as z from 'zod'
import { blockSchema } from '../../lib/config.ts'
import { hostPortForms, isHostName, parseHostPort } from '../../lib/host-port.ts'

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** Allowed values of discovery, each in the words of an error text. */
const serviceForms = 'the name of a Service'
const namespaceForms = 'the name of a namespace'
const dnsForms = 'a host name or host:port'
/** Bound of Services whose endpoints are replicas: each is listed and watched. */
const maxServices = 8
/** Bound of members of a list: all names are resolved at once. */
const maxMembers = 100

const isLabel = (text: string): boolean => label.test(text)
const isDnsTarget = (text: string): boolean => isHostName(text) || parseHostPort(text) !== undefined
const isMember = (text: string): boolean => parseHostPort(text) !== undefined

const services = `${serviceForms}, or a list of at most ${maxServices}`
const areServices = (value: string | readonly string[]): boolean => {
  const names = [value].flat()
  return names.length > 0 && names.length <= maxServices && names.every(isLabel)
}

/**
 * The block `cluster.discovery`: addresses of possible replicas.
 *
 * @see doc/operate/discovery.md, doc/reference/configuration.md "For more than one replica"
 */
export const discoverySchema = blockSchema({
  kubernetes: z
    .object(
      {
        /** one or several, all in `namespace` */
        service: z
          .union([z.string(), z.array(z.string())], { error: services })
          .refine(areServices, { error: services }),
        namespace: z.string({ error: namespaceForms }).refine(isLabel, { error: namespaceForms }).optional(),
      },
      { error: 'a block of keys' },
    )
    .optional(),
  dns: z.string({ error: dnsForms }).refine(isDnsTarget, { error: dnsForms }).optional(),
  static: z
    .array(z.string({ error: hostPortForms }).refine(isMember, { error: hostPortForms }), { error: 'a list' })
    .max(maxMembers, { error: `at most ${maxMembers} members` })
    .prefault([]),
})

/** `cluster.discovery` from the environment, which replaces that of the file. */
export interface DiscoveryFromEnvironment {
  readonly kubernetes?: { service: string | string[]; namespace?: string }
  readonly dns?: string
  readonly static?: readonly string[]
}

const environmentForms = `service or namespace/service, with commas between up to ${maxServices} services of one namespace`

/**
 * Reads `KAS_CLUSTER_SERVICE`, `_DNS` and `_STATIC`; undefined: none is set.
 *
 * @param problems - receives their faults
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
  if (service !== undefined && !kubernetes) wrong('SERVICE', service, environmentForms)
  if (dns !== undefined && !isDnsTarget(dns)) wrong('DNS', dns, dnsForms)
  for (const member of members ?? []) if (!isMember(member)) wrong('STATIC', member, hostPortForms)
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

/** Parses `service`, `namespace/service`, `namespace/service,service`; undefined: it is none of these. */
function servicesOf(text: string, ownNamespace: string | undefined) {
  const [first = '', second, ...more] = text.split('/')
  const services = commaSeparated(second ?? first)
  const namespace = second === undefined ? ownNamespace : first
  if (more.length > 0 || services.length === 0 || services.length > maxServices) return undefined
  if (!services.every(isLabel) || (namespace !== undefined && !isLabel(namespace))) return undefined
  const [only, ...others] = services
  return { service: others.length === 0 ? (only as string) : services, ...(namespace ? { namespace } : {}) }
}
