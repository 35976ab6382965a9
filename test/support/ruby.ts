import { spawnSync } from 'node:child_process'

/** For `skip`: the reason why tests with GitLab's own client cannot run; false if they can. */
export const withoutRuby = spawnSync('ruby', ['-e', "require 'grpc'"]).status === 0 ? false : 'needs ruby with grpc'

/** Returns the variables for the libraries of a ruby that is not the system's. */
export function pathsOfRuby(): Record<string, string> {
  const names = ['RUBYLIB', 'LD_LIBRARY_PATH', 'GEM_PATH']
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])))
}
