import type { KasError } from '../../lib/errors.ts'
import { tlsFault } from '../../lib/tls-fault.ts'

/** Returns the next step for an API server that cannot be used; undefined: the error says all that is known. */
export function nextStepToApiServer(error: unknown, server: URL): string | undefined {
  const { code, cause, path, spec } = error as NodeJS.ErrnoException & Partial<KasError> & { cause?: unknown }
  if (spec?.code === 'UNREACHABLE') {
    return ofStatus(spec.httpStatus) ?? (cause ? nextStepToApiServer(cause, server) : undefined)
  }
  return ofTls(code, server) ?? ofNetwork(code, path, server)
}

function ofTls(code: string | undefined, { host, protocol }: URL): string | undefined {
  switch (tlsFault(code)) {
    case 'untrusted':
      return `Give agentk the authority of the API server ${host}: certificate-authority in the kubeconfig, or --certificate-authority; in a pod it is the ca.crt of the service account`
    case 'name':
      return `Use the name that the certificate of the API server ${host} is for, or name it by --tls-server-name`
    case 'dates':
      return `Check the clock of this machine, and the dates of the certificate: openssl s_client -connect ${host} </dev/null | openssl x509 -noout -dates`
    case 'no TLS':
      return `No TLS is spoken at ${host}: check server in the kubeconfig, or --server`
    default:
      return (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') && protocol === 'http:'
        ? `${host} may want TLS: try https:// for server in the kubeconfig, or --server`
        : undefined
  }
}

function ofNetwork(code: string | undefined, path: string | undefined, { host, hostname }: URL): string | undefined {
  switch (code) {
    case 'ECONNREFUSED':
      return `Nothing listens at ${host}: check that the API server runs, and server in the kubeconfig or --server`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${hostname} is not known here: check server in the kubeconfig or --server, and the DNS of this machine`
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `There is no way to ${host}: check firewalls, and the NetworkPolicy of this pod`
    case 'ENOENT':
      return path?.startsWith('/var/run/secrets/kubernetes.io/serviceaccount/')
        ? 'This pod has no service account mounted: set serviceAccountName, and do not set automountServiceAccountToken to false'
        : undefined
    default:
      return undefined
  }
}

function ofStatus(status: number | undefined): string | undefined {
  switch (status) {
    case 400:
      return 'The API server may want TLS: try https:// for server in the kubeconfig, or --server'
    case 401:
      return 'The API server does not know who agentk is: check the token or client certificate of the kubeconfig, or the service account of the pod'
    case 403:
      return 'agentk may not ask the API server: bind its user or service account to a role, such as system:discovery'
    case 404:
      return 'What answers is no API server: check server in the kubeconfig, or --server'
    default:
      return undefined
  }
}
