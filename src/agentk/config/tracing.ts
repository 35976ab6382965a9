import { systemClock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { OtlpTracing } from '../../lib/tracing/otlp-tracing.ts'
import { productName, type Version } from '../../lib/version.ts'

/** Destination of traces; `problem`: reason why there are none although the environment asks for them. */
export type TracingSettings =
  | {
      readonly url: string
      readonly serviceName: string
      /** timeout of one export in ms; undefined: the default */
      readonly exportMs: number | undefined
    }
  | { readonly problem: string }

const tracesPath = 'v1/traces'
const defaultServiceName = 'gitlab-agent'
/** ms; not 0, and within the range of a timer */
const timeoutForm = /^0*[1-9]\d{0,6}$/

/**
 * Reads the standard variables of OpenTelemetry. The library itself reads headers, certificates, compression and
 * OTEL_RESOURCE_ATTRIBUTES. Other variables have no effect, OTEL_TRACES_SAMPLER included.
 *
 * @returns undefined: tracing is off
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
  const timeout = of('TIMEOUT')
  if (timeout && !timeoutForm.test(timeout)) return { problem: 'the time-out of OTLP is no number of milliseconds' }
  const isWhole = Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
  return {
    url: isWhole ? endpoint : `${endpoint.replace(/\/$/, '')}/${tracesPath}`,
    serviceName: env.OTEL_SERVICE_NAME || defaultServiceName,
    exportMs: timeout ? Number(timeout) : undefined,
  }
}

/** @returns undefined: tracing is off, and no code of OpenTelemetry is loaded */
export async function createTracing(
  log: Logger,
  {
    config,
    version,
  }: {
    readonly config: { readonly tracing?: TracingSettings | undefined; readonly pod: { readonly name: string } }
    readonly version: Version
  },
): Promise<OtlpTracing | undefined> {
  const { tracing, pod } = config
  if (!tracing) return undefined
  if ('problem' in tracing) {
    log.warn({ reason: tracing.problem }, 'Nothing is traced')
    return undefined
  }
  const { OtlpTracing } = await import('../../lib/tracing/otlp-tracing.ts')
  return new OtlpTracing(
    { log: log.child({ mod_name: 'observability' }), clock: systemClock },
    {
      url: tracing.url,
      exportMs: tracing.exportMs,
      product: productName('gitlab-agent', version),
      service: { name: tracing.serviceName, version: `v${version.version}`, instance: pod.name },
    },
  )
}
