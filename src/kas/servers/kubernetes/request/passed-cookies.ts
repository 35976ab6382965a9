import type { Headers } from '../../../../proto/http/http-message.ts'

/** Which cookies of a caller go on to the cluster, for web applications behind its API server. */

/** Names that begin so are GitLab's, or of the host alone. In any case: what is behind may read them so. */
const ownCookies = /^(?:_gitlab|__host-|remember_user_token)/i

/**
 * Whether cookies of a host may be GitLab's: they count for each port of it.
 *
 * @param hosts - that the request names, with or without a port; none: it may be any
 * @param gitlabHost - of `gitlab.external_url`, without one; undefined: there is no GitLab
 */
export function sharesHost(hosts: readonly string[], gitlabHost: string | undefined): boolean {
  if (gitlabHost === undefined) return false
  return (
    hosts.length === 0 || hosts.flatMap((host) => host.split(',')).some((host) => nameOf(host) === nameOf(gitlabHost))
  )
}

/** Headers in which a front names the host that it was called by, where it writes another `Host`. */
const frontHeaders: ReadonlySet<string> = new Set(['X-Forwarded-Host', 'X-Original-Host', 'X-Host'])
const hostOfUrl = /^\s*https?:\/\/([^/?#]*)/i
const hostOfForwarded = /(?:^|[;,])\s*host=\s*"?([^";,\s]*)/gi

/**
 * Hosts that a request was sent to, as a front says, or its browser: a page has only the cookies of its own host and domain. A link from
 * another site says nothing of cookies.
 */
function hostsOfFront(header: Headers): string[] {
  const valuesOf = (wanted: string) => header.flatMap(([name, values]) => (name === wanted ? values : []))
  const isFromElsewhere = valuesOf('Sec-Fetch-Site').some((site) => site.trim() === 'cross-site')
  const pages = isFromElsewhere ? [] : [...valuesOf('Origin'), ...valuesOf('Referer')]
  return [
    ...header.flatMap(([name, values]) => (frontHeaders.has(name) ? values : [])),
    ...valuesOf('Forwarded').flatMap((value) => Array.from(value.matchAll(hostOfForwarded), ([, host = '']) => host)),
    ...pages.flatMap((page) => hostOfUrl.exec(page)?.[1] ?? []),
  ]
}

/**
 * Whether a request was sent to a host that may be GitLab's, by what it says and by what a front or a page says of it.
 *
 * @param head - with headers that are not believed
 */
export function isSentToGitlab(
  { hosts, header }: { readonly hosts: readonly string[]; readonly header: Headers },
  gitlabHost: string | undefined,
): boolean {
  if (gitlabHost === undefined) return false
  return sharesHost(hosts, gitlabHost) || hostsOfFront(header).some((host) => sharesHost([host], gitlabHost))
}

/** @returns values of Cookie headers, without names of GitLab's; none: there are no others */
export function passedCookies(headers: readonly string[]): string[] {
  return headers.flatMap((header) => {
    const pairs = header.split(';').flatMap((pair) => {
      const text = pair.trim()
      const name = text.split('=', 1)[0]?.trim() ?? ''
      return text === '' || ownCookies.test(name.replace(/^"/, '')) ? [] : [text]
    })
    return pairs.length === 0 ? [] : [pairs.join('; ')]
  })
}

function nameOf(host: string): string {
  return host.trim().toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
}
