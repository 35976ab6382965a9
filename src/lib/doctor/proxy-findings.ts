import { connectProblem } from '../can-connect.ts'
import { formatHostPort } from '../host-port.ts'
import { proxyHint, proxyUrl } from '../proxy.ts'
import { type Found, failed } from './findings.ts'

const variables = ['HTTPS_PROXY', 'HTTP_PROXY'] as const
/** bound of one connection. ms */
const timeoutMs = 5000
const defaultPorts: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Checks the proxies of the environment: each URL can be parsed, and its proxy accepts a connection. User and password
 * are not shown.
 */
export async function checkProxies(env: Environment): Promise<Found[]> {
  const named = variables.flatMap((upper) => {
    const subject = env[upper] ? upper : upper.toLowerCase()
    const value = env[subject]
    return value ? [{ subject, value }] : []
  })
  if (named.length === 0) return [{ state: 'skipped', text: 'the environment names none' }]
  const noProxy = env.NO_PROXY || env.no_proxy
  const except = noProxy ? `, except ${noProxy}` : ', and NO_PROXY excepts nothing'
  return Promise.all(named.map(async ({ subject, value }) => ({ subject, ...(await checkProxy(value, except)) })))
}

async function checkProxy(value: string, except: string): Promise<Found> {
  const url = proxyUrl(value)
  const port = Number(url?.port) || defaultPorts[url?.protocol ?? '']
  if (!url || port === undefined) {
    const advice = `write http://host:port, with user:password@ before the host if it wants them; ${proxyHint}`
    return failed('it is no URL of an http or https proxy', advice)
  }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const place = formatHostPort({ host, port })
  const problem = await connectProblem({ host, port }, timeoutMs)
  if (problem === undefined) return { state: 'ok', text: `a connection to ${place} can be made${except}` }
  const advice = 'is it written right, and does it run? What needs none may be named in NO_PROXY'
  return failed(`${place}: ${problem}`, advice)
}
