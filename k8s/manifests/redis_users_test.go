package manifests_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// redisUsers are the users with which the programs log in to Redis, by the names of pods and of services of
// compose.yaml.
var redisUsers = map[string]string{
	"apply-api": "jajeong_api", "settle": "jajeong_settle", "settle-serve": "jajeong_settle",
	"verify": "jajeong_settle", "purge": "jajeong_settle", "console": "jajeong_settle",
	"serve": "jajeong_settle", "demo": "jajeong_settle",
}

func TestPods_HaveTheirRedisUsers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		require.NotContains(t, c.settings, "REDIS_USERNAME", "each program has its own")
		for name, pod := range c.own() {
			env := pod.Spec.Containers[0].Env
			at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "REDIS_USERNAME" })
			if redisUsers[name] == "" {
				require.Negative(t, at, "%s needs no Redis", name)
				continue
			}
			require.GreaterOrEqual(t, at, 0, "%s is the default user, who may do everything", name)
			require.Equal(t, redisUsers[name], env[at].Value, name)
		}
	})
}

// The servers for laptops have the users of the documents, with which all tests run, and a public password.
func TestLaptops_HaveTheDocumentedRedisUsers(t *testing.T) {
	t.Parallel()
	const file = "k8s/overlays/dev/redis-users.acl"
	documented, loaded := content(t, "docs", "redis-users.acl"), content(t, file)
	administrator, users, _ := strings.Cut(string(loaded), "\n")
	require.Equal(t, "user default on >jajeong ~* &* +@all", administrator)
	require.Equal(t, strings.ReplaceAll(string(documented), ">…", ">jajeong"), users)
	for _, name := range redisUsers {
		require.Contains(t, users, "user "+name+" ")
	}

	dev := render(t, "dev")
	redis := dev.deployments["redis"].Spec.Template.Spec
	require.Equal(t, "/run/secrets/redis/redis-users.acl", argument(redis.Containers[0].Args, "--aclfile"))
	require.Contains(t, redis.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "users", MountPath: "/run/secrets/redis", ReadOnly: true})
	for _, secret := range dev.secrets {
		if password, ok := secret.Data["redis-password"]; ok {
			require.Equal(t, "jajeong", string(password), secret.Name)
		}
		if strings.HasPrefix(secret.Name, "redis") {
			require.Equal(t, map[string][]byte{"redis-users.acl": loaded}, secret.Data)
		}
	}

	project := composed(t)
	password, err := os.ReadFile(project.Secrets["redis-password"].File)
	require.NoError(t, err)
	require.Equal(t, "jajeong\n", string(password))
	server := project.Services["redis"]
	mounted := argument(server.Command, "--aclfile")
	require.True(t, slices.ContainsFunc(server.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Target == mounted && strings.HasSuffix(v.Source, file)
	}))
	require.Equal(t, new("jajeong"), server.Environment["REDISCLI_AUTH"],
		"redis-cli in the container is the administrator")
	for _, name := range []string{"apply-api", "serve", "settle", "demo"} {
		require.Equal(t, redisUsers[name], *project.Services[name].Environment["REDIS_USERNAME"], name)
		require.Equal(t, "/run/secrets/redis-password", *project.Services[name].Environment["REDIS_PASSWORD_FILE"],
			name)
		require.Equal(t, "redis-password", project.Services[name].Secrets[0].Source, name)
	}
}

// argument returns what follows a flag.
func argument(args []string, flag string) string {
	if at := slices.Index(args, flag); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}
