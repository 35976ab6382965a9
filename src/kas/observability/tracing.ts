import { hostname } from 'node:os'
import { systemClock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { OtlpTracing } from '../../lib/tracing/otlp-tracing.ts'
import { trustedContext } from '../../lib/trusted-authorities.ts'
import type { Version } from '../../lib/version.ts'
import type { KasConfig } from '../config/kas-schema.ts'
import { OtlpToken } from './otlp-token.ts'

export interface TracingOptions {
  readonly config: Pick<KasConfig, 'observability' | 'cluster'>
  readonly version: Version
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
}

/** path for an endpoint without one, as in upstream's library */
const defaultPath = '/v1/traces'

/**
 * Creates traces as configured in `observability.tracing`.
 *
 * @returns undefined: they are off, and no part of OpenTelemetry is loaded
 * @throws KasError SETTINGS_INVALID if the token or the certificates cannot be used
 */
export async function createTracing(
  log: Logger,
  { config, version, product }: TracingOptions,
): Promise<OtlpTracing | undefined> {
  const { tracing } = config.observability
  if (!tracing) return undefined
  const { otlp_endpoint, otlp_token_secret_file: tokenFile, otlp_ca_certificate_file: caFile } = tracing
  const token = tokenFile === undefined ? undefined : await OtlpToken.read(tokenFile)
  const isSecure = otlp_endpoint.startsWith('https:') || caFile !== undefined
  const secureContext = isSecure
    ? await trustedContext(caFile, 'observability.tracing.otlp_ca_certificate_file')
    : undefined
  const { OtlpTracing } = await import('../../lib/tracing/otlp-tracing.ts')
  return new OtlpTracing(
    { log: log.child({ mod_name: 'observability' }), clock: systemClock },
    {
      url: collectorUrl(otlp_endpoint),
      product,
      service: {
        name: 'gitlab-kas',
        version: `v${version.version}`,
        instance: config.cluster.name ?? hostname(),
      },
      ...(token ? { headers: token.headers } : {}),
      ...(secureContext ? { secureContext } : {}),
    },
  )
}

/** Returns scheme, host and path, as upstream does, without user and query. */
export function collectorUrl(endpoint: string): string {
  const { origin, pathname } = new URL(endpoint)
  const hasPath = /^[^:]+:\/\/[^/?#]*\//.test(endpoint)
  return origin + (hasPath ? pathname : defaultPath)
}
