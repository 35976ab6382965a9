import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { type ChosenSource, chooseSources, type DiscoverySettings, type Surroundings } from './auto.ts'
import { DnsDiscovery, systemResolver } from './dns.ts'
import { KubernetesDiscovery, kubernetesDefaults } from './kubernetes/kubernetes-source.ts'
import { MergedDiscovery } from './merged.ts'
import { pollDefaults } from './polled-source.ts'
import { readSearchList } from './search-list.ts'
import type { DiscoverySource } from './source.ts'
import { lookupBySystem, StaticDiscovery } from './static.ts'

export interface DiscoveryComponents {
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/**
 * The sources that the settings and the surroundings call for, as one.
 *
 * @throws KasError SETTINGS_INVALID if a member of the list is no `host:port`
 */
export function createDiscovery(
  components: DiscoveryComponents,
  options: { readonly settings: DiscoverySettings; readonly surroundings: Surroundings },
): MergedDiscovery {
  const { sources, warnings } = chooseSources(options.settings, options.surroundings)
  for (const warning of warnings) components.log.warn({ reason: warning }, 'A source of discovery is not used')
  return new MergedDiscovery({ sources: sources.map((chosen) => createSource(components, chosen)) })
}

function createSource(components: DiscoveryComponents, chosen: ChosenSource): DiscoverySource {
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
