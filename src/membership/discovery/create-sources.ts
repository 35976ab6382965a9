import { parseHostPort } from '../../lib/host-port.ts'
import { DnsDiscovery, systemResolver } from './dns.ts'
import { KubernetesDiscovery, kubernetesDefaults } from './kubernetes/kubernetes-source.ts'
import { pollDefaults } from './polled-source.ts'
import type { SourceComponents } from './running-source.ts'
import { readSearchList } from './search-list.ts'
import type { DiscoverySource } from './source.ts'
import { lookupBySystem, StaticDiscovery } from './static.ts'

/**
 * Creates the sources of the settings; none: this replica is alone.
 *
 * @throws KasError SETTINGS_INVALID if a member of the list is no `host:port`
 */
export function createSources(
  components: SourceComponents,
  options: { readonly settings: DiscoverySettings; readonly surroundings: Surroundings },
): readonly DiscoverySource[] {
  const { sources, warnings } = chooseSources(options.settings, options.surroundings)
  for (const warning of warnings) components.log.warn({ reason: warning }, 'A source of discovery is not used')
  return sources.map((chosen) => createSource(components, chosen))
}

function createSource(components: SourceComponents, chosen: ChosenSource): DiscoverySource {
  const log = components.log.child({ source: chosen.kind })
  const parts = { ...components, log }
  switch (chosen.kind) {
    case 'kubernetes':
      return new KubernetesDiscovery(parts, { ...kubernetesDefaults, ...chosen })
    case 'dns':
      return new DnsDiscovery(
        { ...parts, resolver: systemResolver, searchList: readSearchList },
        { ...pollDefaults, ...chosen },
      )
    case 'static':
      return new StaticDiscovery({ ...parts, lookup: lookupBySystem }, { ...pollDefaults, ...chosen })
  }
}

/** `cluster.discovery` of the configuration. */
export interface DiscoverySettings {
  readonly kubernetes?:
    | { readonly service: string | readonly string[]; readonly namespace?: string | undefined }
    | undefined
  /** a name, or a name and a port */
  readonly dns?: string | undefined
  /** each `host:port` */
  readonly static: readonly string[]
}

export interface Surroundings {
  /** true: this process runs in a pod */
  readonly inCluster: boolean
  /** port of `cluster.listen`, for members whose source has no port */
  readonly gossipPort: number
}

export type ChosenSource =
  | {
      readonly kind: 'kubernetes'
      readonly services: readonly string[]
      readonly namespace?: string
      readonly otherPort: number
    }
  | { readonly kind: 'dns'; readonly host: string; readonly port: number }
  | { readonly kind: 'static'; readonly members: readonly string[] }

/**
 * Chooses the configured sources. A failing source does not remove others (doc/operate/discovery.md).
 *
 * @returns `sources`: none if this replica is alone; `warnings` for the log: settings that cannot be used
 */
export function chooseSources(
  settings: DiscoverySettings,
  { inCluster, gossipPort }: Surroundings,
): { readonly sources: readonly ChosenSource[]; readonly warnings: readonly string[] } {
  const { kubernetes, dns, static: members } = settings
  const sources: ChosenSource[] = []
  const warnings: string[] = []
  if (kubernetes && inCluster) {
    const { namespace } = kubernetes
    const services = [...new Set([kubernetes.service].flat())]
    sources.push({ kind: 'kubernetes', services, otherPort: gossipPort, ...(namespace ? { namespace } : {}) })
  } else if (kubernetes) {
    warnings.push('cluster.discovery.kubernetes has no effect: this process does not run in a pod')
  }
  if (dns !== undefined) sources.push({ kind: 'dns', ...(parseHostPort(dns) ?? { host: dns, port: gossipPort }) })
  if (members.length > 0) sources.push({ kind: 'static', members })
  return { sources, warnings }
}

/** True in a pod: Kubernetes sets both variables, which name its API server. */
export function runsInCluster(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST && env.KUBERNETES_SERVICE_PORT)
}
