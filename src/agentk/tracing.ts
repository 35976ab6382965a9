import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { OtlpTracing } from '../lib/tracing/otlp-tracing.ts'
import { productName, type Version } from '../lib/version.ts'
import type { Config } from './config.ts'

/** Where traces go; `problem`: why they go nowhere though the environment asks for them. */
export type TracingSettings = { readonly url: string } | { readonly problem: string }

const tracesPath = 'v1/traces'

/**
 * What the standard variables of OpenTelemetry say; those not named here (headers, certificates, time-outs) the
 * library reads by itself.
 *
 * @returns undefined: traces are off
 */
export function readTracing(env: NodeJS.ProcessEnv): TracingSettings | undefined {
  const of = (name: string) => env[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`]
  const endpoint = of('ENDPOINT')
  if (!endpoint || env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return undefined
  if (!(env.OTEL_TRACES_EXPORTER || 'otlp').split(',').includes('otlp')) return undefined
  const protocol = of('PROTOCOL')
  if (protocol && protocol !== 'http/protobuf') return { problem: `OTLP goes by http/protobuf, not by ${protocol}` }
  if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint)) {
    return { problem: 'the endpoint of OTLP is no URL that begins with http:// or https://' }
  }
  const isWhole = Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
  return { url: isWhole ? endpoint : `${endpoint.replace(/\/$/, '')}/${tracesPath}` }
}

/** @returns undefined: they are off, and nothing of OpenTelemetry is loaded */
export async function createTracing(
  log: Logger,
  { config, version }: { config: Pick<Config, 'tracing' | 'pod'>; version: Version },
): Promise<OtlpTracing | undefined> {
  const { tracing, pod } = config
  if (!tracing) return undefined
  if ('problem' in tracing) {
    log.warn({ reason: tracing.problem }, 'Nothing is traced')
    return undefined
  }
  const { OtlpTracing } = await import('../lib/tracing/otlp-tracing.ts')
  return new OtlpTracing(
    { log: log.child({ mod_name: 'observability' }), clock: systemClock },
    {
      url: tracing.url,
      product: productName('gitlab-agent', version),
      service: { name: 'gitlab-agent', version: `v${version.version}`, instance: pod.name },
    },
  )
}
